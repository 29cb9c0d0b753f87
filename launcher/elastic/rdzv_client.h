/* rdzv_client - one node's side of torchrun's rendezvous (--rdzv-endpoint). Each node is started by
 * its own command; the nodes connect to one server and run the attempts of a job together.
 *
 * All nodes run drover. The frames have the format of remote/control_frame.h:
 *
 *     node -> server   join {protocol, id, min, max, name, ranks, port, endpoint, host}
 *                      ended {well, why}
 *     server -> node   assignment {node, nodes, first, world, address, port}
 *                      stop {failure, why}   job_done {}   reject {why}
 *
 * The node that has the endpoint's address runs the server (rdzv_server.h) and takes part like the
 * others. Any process that reaches the port and knows the id may join, as with torchrun's store. */
#ifndef DROVER_RDZV_CLIENT_H
#define DROVER_RDZV_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

enum { RDZV_CLIENT_DEFAULT_PORT = 29400 }; /* torchrun's, for endpoints without a port */

struct rdzv_client_opts {
    const char *host; /* of --rdzv-endpoint */
    int port;         /* 0: any; then no other node can join, and none is awaited */
    const char *id;   /* of the job; the same on all nodes */
    int nodes_min, nodes_max;
    int64_t last_call_ms, join_ms; /* see struct rdzv_policy_opts */
    int is_host;                   /* run the server? 1, 0; -1: if this node has the address */
    const char *name;              /* of this node */
    int ranks;                     /* here */
};

struct rdzv_client_assignment {
    int node, nodes, first_rank, world_size;
    const char *master_addr; /* borrowed during the call */
    int master_port;
};

/* All come from the loop, never from inside a function of rdzv_client. */
struct rdzv_client_events {
    void (*assigned)(void *arg, const struct rdzv_client_assignment *a); /* start the ranks */
    /* Stop the ranks, if they have not ended; then call rdzv_client_join() or rdzv_client_close().
     * `failure`: a node failed; else a node joined. */
    void (*stop)(void *arg, bool failure, const char *why);
    void (*job_done)(void *arg);                    /* all ranks of all nodes ended well */
    void (*failed)(void *arg, const struct err *e); /* no rendezvous; the last event */
};

struct rdzv_client;

/* Connects to the server, or runs it, and joins. The strings of `opts` are borrowed until
 * rdzv_client_close(). */
int rdzv_client_open(struct rdzv_client **out, uv_loop_t *loop, const struct rdzv_client_opts *opts,
                     const struct rdzv_client_events *ev, void *arg, struct err *e);
/* Leaves: the server sees the connection end. Its handles close in the loop's next iterations. */
void rdzv_client_close(struct rdzv_client *r);
AUTO_DEFINE(rdzv_client, struct rdzv_client *, rdzv_client_close)

/* Joins the next attempt. A port for its MASTER_PORT is held until the assignment. */
int rdzv_client_join(struct rdzv_client *r, struct err *e);
/* The ranks of this node have ended by themselves. If they ended well, `job_done` or `stop`
 * follows. If not (`reason`: "rank 3 …"), `stop` follows, which confirms that all nodes know. */
void rdzv_client_ranks_ended(struct rdzv_client *r, bool well, const char *reason);

#endif
