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

enum { ROUND_NAME_MAX = 255 };

struct round_want {
    int nodes_min, nodes_max;
    int64_t last_call_ms; /* from the least number of nodes until it starts with those */
    int64_t join_ms;      /* until the least number has come */
};

/* A node that wants to take part. */
struct round_node {
    int id; /* names it in calls and actions: any number, one for each */
    char name[ROUND_NAME_MAX + 1], address[ROUND_NAME_MAX + 1];
    int ranks;
    int port;  /* free there, for MASTER_PORT */
    bool host; /* of the rendezvous */
};

enum round_say {
    ROUND_PLACE,  /* start your ranks */
    ROUND_STOP,   /* end them; then join again, or leave */
    ROUND_OVER,   /* all ranks of all nodes have ended well */
    ROUND_REFUSE, /* it takes no part: why */
};

struct round_action {
    enum round_say say;
    int id;
    /* PLACE: its number, and where its ranks stand among all. STOP: `node` is unset. */
    int node, nodes, first_rank, world_size;
    char address[ROUND_NAME_MAX + 1]; /* of node 0 */
    int port;                         /* MASTER_PORT, on node 0 */
    bool failure; /* STOP: a node failed or was lost; else one has come, which is no fault */
    char why[2 * ROUND_NAME_MAX];
};

struct round;
struct round *round_new(const struct round_want *want, int64_t now_ms);
void round_free(struct round *r);
AUTO_DEFINE(round, struct round *, round_free)

/* Each returns how many actions follow from it; round_action() has them until the next call. */

/* The node comes, or comes back after an attempt. */
size_t round_join(struct round *r, const struct round_node *n, int64_t now_ms);
/* Its ranks have ended: all well, or not (`why`: "rank 3 exited with status 1"): then it is told to
 * stop as all are, so it knows that they were. */
size_t round_ended(struct round *r, int id, bool well, const char *why, int64_t now_ms);
/* It will not come back. `why`: "the connection was closed". */
size_t round_left(struct round *r, int id, const char *why, int64_t now_ms);
/* Time has passed. */
size_t round_tick(struct round *r, int64_t now_ms);

const struct round_action *round_action(const struct round *r, size_t i);

/* When round_tick() is due; INT64_MAX: not. */
int64_t round_deadline(const struct round *r);

#endif
