/* rdzv - this node's side of the rendezvous of several torchruns (--rdzv-endpoint): each node is
 * started by its own command, they meet at one address, and run a job's attempts together.
 *
 * All nodes run drover; the frames are control_frame's:
 *
 *     node -> host   join {id, min, max, name, ranks, port}   ended {well, why}
 *     host -> node   place {node, nodes, first, world, address, port}   stop {failure, why}
 *                    over   no {why}
 *
 * The node where the endpoint's address is hosts it (rdzv_host.h), and is a node like the others.
 * It is open to whoever reaches the port and knows the id, as torchrun's own store is. */
#ifndef DROVER_RDZV_CLIENT_H
#define DROVER_RDZV_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

enum { RDZV_CLIENT_DEFAULT_PORT = 29400 }; /* torchrun's, where the endpoint has none */

struct rdzv_client_opts {
    const char *host; /* of --rdzv-endpoint */
    int port;         /* 0: any; then nobody else can come, and nobody is waited for */
    const char *id;   /* of the job; all nodes say the same */
    int nodes_min, nodes_max;
    int64_t last_call_ms, join_ms; /* as round_want has them */
    int is_host;                   /* 1, 0; -1: where the address is */
    const char *name;              /* of this node */
    int ranks;                     /* here */
};

struct rdzv_client_assignment {
    int node, nodes, first_rank, world_size;
    const char *master_addr; /* borrowed during the call */
    int master_port;
};

/* From the loop, never from inside a call of rdzv_. */
struct rdzv_client_events {
    void (*place)(void *arg, const struct rdzv_client_assignment *p); /* start the ranks */
    /* End them, where they have not ended; then rdzv_client_join() or rdzv_client_close(). Not a
     * failure: a node has come. */
    void (*stop)(void *arg, bool failure, const char *why);
    void (*over)(void *arg); /* all ranks of all nodes have ended well */
    void (*failed)(void *arg,
                   const struct err *e); /* there is no rendezvous (any more); the last */
};

struct rdzv_client;

/* Comes to the rendezvous, and joins. Strings of `want` are borrowed for as long as it lives. */
int rdzv_client_open(struct rdzv_client **out, uv_loop_t *loop, const struct rdzv_client_opts *want,
                     const struct rdzv_client_events *ev, void *arg, struct err *e);
/* Leaves. What was said is sent first; the others learn of it by the connection's end. Its handles
 * close on the loop's next turns. */
void rdzv_client_close(struct rdzv_client *r);
AUTO_DEFINE(rdzv_client, struct rdzv_client *, rdzv_client_close)

/* Takes part in the next attempt. */
int rdzv_client_join(struct rdzv_client *r, struct err *e);
/* The ranks of this node have ended by themselves: all well, and `over` or `stop` follows; or not
 * (`why`: "rank 3 …"), and `stop` follows when all nodes have been told. */
void rdzv_client_ranks_ended(struct rdzv_client *r, bool well, const char *why);

#endif
