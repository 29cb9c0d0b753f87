/* rdzv_policy - the decisions of torchrun's rendezvous: which nodes take part in the next attempt
 * of a job, in which order, and when their ranks start and stop.
 *
 * Pure: messages of nodes go in with the time, actions come out. The rules are those of torchrun's
 * dynamic rendezvous (torch.distributed.elastic.rendezvous, its pages "Rendezvous" and "Elastic
 * Agent"). An attempt starts when the maximum number of nodes has joined, or `last_call_ms` after
 * the minimum number has. A node that fails, that leaves, or that joins while there is room ends
 * the attempt on all nodes. A node whose ranks ended well waits for the others. Node 0 is the one
 * that runs the server, if it takes part, since its address is known to be reachable. The others
 * follow by name. */
#ifndef DROVER_RDZV_POLICY_H
#define DROVER_RDZV_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/mem.h"

enum { RDZV_POLICY_NAME_MAX = 255 };

struct rdzv_policy_opts {
    int nodes_min, nodes_max;
    int64_t last_call_ms; /* how long further nodes are awaited once nodes_min have joined */
    int64_t join_ms;      /* how long nodes_min nodes are awaited */
};

/* A node that wants to take part. */
struct rdzv_policy_node {
    int id; /* identifies the node in calls and actions; unique */
    char name[RDZV_POLICY_NAME_MAX + 1], address[RDZV_POLICY_NAME_MAX + 1];
    int ranks;
    int port;  /* a free one of that node, for MASTER_PORT */
    bool host; /* it runs the server */
};

enum rdzv_policy_reply {
    RDZV_POLICY_ASSIGN,   /* start the ranks */
    RDZV_POLICY_STOP,     /* stop the ranks; then join again, or leave */
    RDZV_POLICY_JOB_DONE, /* all ranks of all nodes ended well */
    RDZV_POLICY_REJECT,   /* the node does not take part: see `why` */
};

struct rdzv_policy_action {
    enum rdzv_policy_reply reply;
    int id;
    /* Of ASSIGN: the node's number, and the number of its first rank among all. */
    int node, nodes, first_rank, world_size;
    char address[RDZV_POLICY_NAME_MAX + 1]; /* of node 0 */
    int port;                               /* MASTER_PORT, on node 0 */
    bool failure; /* of STOP: a node failed or was lost; else a node joined, which is not a fault */
    char why[2 * RDZV_POLICY_NAME_MAX];
};

struct rdzv_policy;
struct rdzv_policy *rdzv_policy_new(const struct rdzv_policy_opts *opts, int64_t now_ms);
void rdzv_policy_free(struct rdzv_policy *r);
AUTO_DEFINE(rdzv_policy, struct rdzv_policy *, rdzv_policy_free)

/* Each function returns the number of actions; rdzv_policy_action() has them until the next call.
 */

/* The node joins, for the first time or after an attempt. */
size_t rdzv_policy_join(struct rdzv_policy *r, const struct rdzv_policy_node *n, int64_t now_ms);
/* The ranks of the node have ended, well or not (`why`: "rank 3 exited with status 1"). If not, it
 * gets STOP like the others, and so learns that they know. */
size_t rdzv_policy_ended(struct rdzv_policy *r, int id, bool well, const char *why, int64_t now_ms);
/* The node has left for good. `why`: "the connection was closed". */
size_t rdzv_policy_left(struct rdzv_policy *r, int id, const char *why, int64_t now_ms);
/* The deadline has passed. */
size_t rdzv_policy_timeout(struct rdzv_policy *r, int64_t now_ms);

const struct rdzv_policy_action *rdzv_policy_action(const struct rdzv_policy *r, size_t i);

/* Returns when rdzv_policy_timeout() is due; INT64_MAX: never. */
int64_t rdzv_policy_deadline(const struct rdzv_policy *r);

#endif
