/* rdzv_policy - the decisions of torchrun's rendezvous: which nodes take part in the next attempt
 * of a job, in which order, and when their ranks start and stop.
 *
 * Pure: the caller passes messages of nodes and the time, and gets actions. The rules are those of
 * torchrun's dynamic rendezvous (torch.distributed.elastic.rendezvous; PyTorch's pages "Rendezvous"
 * and "Elastic Agent"). An attempt starts when the maximum number of nodes has joined, or
 * `last_call_ms` after the minimum number has joined. The attempt ends on all nodes if a node
 * fails, if a node leaves, or if a node joins while there is room. A node whose ranks have
 * succeeded waits for the other nodes. Node 0 is the node that runs the server, if it takes part,
 * since its address is reachable. The other nodes follow by name. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/mem.h"

enum { RDZV_POLICY_NAME_MAX = 255 };

struct rdzv_policy_opts {
    int nodes_min, nodes_max;
    int64_t last_call_ms; /* time to wait for further nodes after nodes_min have joined */
    int64_t join_ms;      /* time to wait for nodes_min nodes */
};

/* A node that wants to take part. */
struct rdzv_policy_node {
    int id; /* identifies the node in calls and actions; unique */
    char name[RDZV_POLICY_NAME_MAX + 1], address[RDZV_POLICY_NAME_MAX + 1];
    int ranks;
    int port;  /* a free port of the node, for MASTER_PORT */
    bool host; /* the node runs the server */
};

enum rdzv_policy_reply {
    RDZV_POLICY_ASSIGN,   /* start the ranks */
    RDZV_POLICY_STOP,     /* stop the ranks, then join again or leave */
    RDZV_POLICY_JOB_DONE, /* all ranks of all nodes ended well */
    RDZV_POLICY_REJECT,   /* the node may not take part; `why` has the reason */
};

struct rdzv_policy_action {
    enum rdzv_policy_reply reply;
    int id;
    /* For ASSIGN: the node's number, the number of nodes, the node's first rank, the number of all
     * ranks. */
    int node, nodes, first_rank, world_size;
    char address[RDZV_POLICY_NAME_MAX + 1]; /* address of node 0 */
    int port;                               /* MASTER_PORT, on node 0 */
    bool failure; /* for STOP: true if a node failed or was lost, false if a node joined */
    char why[2 * RDZV_POLICY_NAME_MAX];
};

struct rdzv_policy;
struct rdzv_policy *rdzv_policy_new(const struct rdzv_policy_opts *opts, int64_t now_ms);
void rdzv_policy_free(struct rdzv_policy *r);
AUTO_DEFINE(rdzv_policy, struct rdzv_policy *, rdzv_policy_free)

/* Each of these functions returns the number of actions that are due. rdzv_policy_action() returns
 * them, until the next call. */

/* Handles a node that joins, for the first time or after an attempt. */
size_t rdzv_policy_join(struct rdzv_policy *r, const struct rdzv_policy_node *n, int64_t now_ms);
/* Handles the end of a node's ranks. `well` is true if all succeeded; otherwise `why` says what
 * failed ("rank 3 exited with status 1"). After a failure all nodes get STOP, also this one, which
 * confirms that the others know. */
size_t rdzv_policy_ended(struct rdzv_policy *r, int id, bool well, const char *why, int64_t now_ms);
/* Ends the job after a failure that a restart does not cure: no node may join any more. */
size_t rdzv_policy_finish(struct rdzv_policy *r);
/* Handles a node that has left. `why` is the reason: "the connection was closed". */
size_t rdzv_policy_left(struct rdzv_policy *r, int id, const char *why, int64_t now_ms);
/* Must be called when rdzv_policy_deadline() has passed. */
size_t rdzv_policy_timeout(struct rdzv_policy *r, int64_t now_ms);

const struct rdzv_policy_action *rdzv_policy_action(const struct rdzv_policy *r, size_t i);

/* Returns the time at which rdzv_policy_timeout() is due; INT64_MAX: never. */
int64_t rdzv_policy_deadline(const struct rdzv_policy *r);
