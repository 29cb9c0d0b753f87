/* rdzv_client - one node's side of torchrun's rendezvous (--rdzv-endpoint). Each node is started by
 * its own command; the nodes connect to one server and run the attempts of a job together.
 *
 * All nodes run drover. The frames have the format of control/control_frame.h:
 *
 *     node -> server   join {protocol, id, min, max, name, ranks, port, endpoint, host}
 *                      ended {well, why, final}
 *     server -> node   assignment {node, nodes, first, world, address, port}
 *                      stop {failure, why}   job_done {}   reject {why}
 *
 * The node that has the endpoint's address runs the server (rdzv_server.h), and takes part in the
 * job like the other nodes. As with torchrun's store, any process that reaches the port and knows
 * the id may join. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"
#include "common/host_port.h"
#include "common/mem.h"

enum { RDZV_CLIENT_DEFAULT_PORT = 29400 }; /* torchrun's default, for endpoints without a port */

struct rdzv_client_opts {
    const char *host; /* host of --rdzv-endpoint */
    int port;         /* 0: any port; no other node can then join, and none is awaited */
    const char *id;   /* id of the job; the same on all nodes */
    int nodes_min, nodes_max;
    int64_t last_call_ms, join_ms; /* see struct rdzv_policy_opts */
    int is_host; /* 1: runs the server; 0: does not; -1: runs it if this node has the address */
    const char *name;             /* of this node */
    int ranks;                    /* number of ranks of this node */
    struct host_port_range ports; /* where MASTER_PORT lies */
};

struct rdzv_client_assignment {
    int node, nodes, first_rank, world_size;
    const char *master_addr; /* borrowed during the call */
    int master_port;
};

/* The loop calls all of these, never a function of rdzv_client. */
struct rdzv_client_events {
    void (*assigned)(void *arg, const struct rdzv_client_assignment *a); /* start the ranks */
    /* The callee must stop the ranks, if they have not ended, and then call rdzv_client_join() or
     * rdzv_client_close(). `failure` is true if a node failed, and false if a node joined. */
    void (*stop)(void *arg, bool failure, const char *why);
    void (*job_done)(void *arg);                    /* all ranks of all nodes ended well */
    void (*failed)(void *arg, const struct err *e); /* the rendezvous is lost; the last event */
};

struct rdzv_client;

/* Connects to the server and joins the rendezvous. Runs the server if this node must. The strings
 * of `opts` are borrowed until rdzv_client_close(). */
int rdzv_client_open(struct rdzv_client **out, uv_loop_t *loop, const struct rdzv_client_opts *opts,
                     const struct rdzv_client_events *ev, void *arg, struct err *e);
/* Leaves the rendezvous: closes the connection to the server. The handles close in the loop's next
 * iterations. */
void rdzv_client_close(struct rdzv_client *r);
AUTO_DEFINE(rdzv_client, struct rdzv_client *, rdzv_client_close)

/* Joins the next attempt. Until the assignment, holds a free port, which may become MASTER_PORT. */
int rdzv_client_join(struct rdzv_client *r, struct err *e);
/* Reports that the ranks of this node have ended by themselves. If `well` is true, `job_done` or
 * `stop` follows. Otherwise `reason` says what failed ("rank 3 …"), and `stop` follows, which
 * confirms that all nodes know of the failure. `final`: no node may start a further attempt, since
 * a restart does not cure the failure. */
void rdzv_client_ranks_ended(struct rdzv_client *r, bool well, const char *reason, bool final);
