/* round - the rendezvous of several torchruns: which nodes take part in the next attempt of a job,
 * in which order, and when their ranks start, stop and are over.
 *
 * Pure: what nodes say goes in with the time, what they are to be told comes out. As torchrun's
 * dynamic rendezvous (torch.distributed.elastic.rendezvous, its pages "Rendezvous" and "Elastic
 * Agent"): an attempt starts when all places are taken, or `last_call_ms` after the least number
 * of nodes has come; a node that fails, leaves or comes where there is room ends the attempt on all
 * of them; and a node whose ranks have ended well waits for the others'. Node 0 is the one that
 * hosts the rendezvous, if it takes part: its address is known to be reachable. The others follow
 * by name. */
#ifndef DROVER_RDZV_POLICY_H
#define DROVER_RDZV_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/mem.h"

enum { RDZV_POLICY_NAME_MAX = 255 };

struct rdzv_policy_opts {
    int nodes_min, nodes_max;
    int64_t last_call_ms; /* from the least number of nodes until it starts with those */
    int64_t join_ms;      /* until the least number has come */
};

/* A node that wants to take part. */
struct rdzv_policy_node {
    int id; /* names it in calls and actions: any number, one for each */
    char name[RDZV_POLICY_NAME_MAX + 1], address[RDZV_POLICY_NAME_MAX + 1];
    int ranks;
    int port;  /* free there, for MASTER_PORT */
    bool host; /* of the rendezvous */
};

enum rdzv_policy_reply {
    RDZV_POLICY_ASSIGN,   /* start your ranks */
    RDZV_POLICY_STOP,     /* end them; then join again, or leave */
    RDZV_POLICY_JOB_DONE, /* all ranks of all nodes have ended well */
    RDZV_POLICY_REJECT,   /* it takes no part: why */
};

struct rdzv_policy_action {
    enum rdzv_policy_reply say;
    int id;
    /* PLACE: its number, and where its ranks stand among all. STOP: `node` is unset. */
    int node, nodes, first_rank, world_size;
    char address[RDZV_POLICY_NAME_MAX + 1]; /* of node 0 */
    int port;                               /* MASTER_PORT, on node 0 */
    bool failure; /* STOP: a node failed or was lost; else one has come, which is no fault */
    char why[2 * RDZV_POLICY_NAME_MAX];
};

struct rdzv_policy;
struct rdzv_policy *rdzv_policy_new(const struct rdzv_policy_opts *want, int64_t now_ms);
void rdzv_policy_free(struct rdzv_policy *r);
AUTO_DEFINE(rdzv_policy, struct rdzv_policy *, rdzv_policy_free)

/* Each returns how many actions follow from it; rdzv_policy_action() has them until the next call.
 */

/* The node comes, or comes back after an attempt. */
size_t rdzv_policy_join(struct rdzv_policy *r, const struct rdzv_policy_node *n, int64_t now_ms);
/* Its ranks have ended: all well, or not (`why`: "rank 3 exited with status 1"): then it is told to
 * stop as all are, so it knows that they were. */
size_t rdzv_policy_ended(struct rdzv_policy *r, int id, bool well, const char *why, int64_t now_ms);
/* It will not come back. `why`: "the connection was closed". */
size_t rdzv_policy_left(struct rdzv_policy *r, int id, const char *why, int64_t now_ms);
/* Time has passed. */
size_t rdzv_policy_timeout(struct rdzv_policy *r, int64_t now_ms);

const struct rdzv_policy_action *rdzv_policy_action(const struct rdzv_policy *r, size_t i);

/* When rdzv_policy_timeout() is due; INT64_MAX: not. */
int64_t rdzv_policy_deadline(const struct rdzv_policy *r);

#endif
