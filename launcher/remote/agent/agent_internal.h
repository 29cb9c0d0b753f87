/* agent_internal - the state of an agent, shared by its files.
 *
 *     agent.c           start, end, and which function handles a frame
 *     agent_start.c     what precedes the start of the ranks: topology, node_spec, networks
 *     agent_ranks.c     the ranks: their events, output, signals, status and call stacks
 *     agent_stdin.c     stdin of the rank that reads it
 *     agent_gpus.c      samples of the ranks' GPUs
 *     agent_tree.c      PMIx, messages of PMIx servers along the tree, the agents below this one,
 * and the parent in the tree
 *
 * Frames have the number of a rank in the whole job. Functions of the engine have its index on this
 * node; job_map converts. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "launcher/engine/engine.h"
#include "launcher/engine/launch_context.h"
#include "launcher/hang/call_stacks.h"
#include "launcher/plan/node_spec.h"
#include "launcher/remote/agent/agent_children.h"
#include "launcher/remote/control/control.h"
#include "launcher/watch/job_monitor.h"

struct agent;

struct agent_rank {
    struct agent *agent;
    int number;                 /* in the whole job */
    pid_t pid;                  /* its process; 0: not started, or exited */
    size_t uncredited_bytes;    /* output that was sent and is not credited yet */
    bool paused;                /* too much output is not credited */
    struct call_stacks *stacks; /* its call stack is being captured; NULL: it is not */
};

/* The agent's end of the pipe from which a rank reads stdin. */
struct agent_stdin {
    int rank_fd; /* the rank's end, until the rank has it; then -1 */
    uv_pipe_t pipe;
    bool open;  /* `pipe` is open */
    bool eof;   /* no further input follows */
    int writes; /* number of writes that are not complete */
};

struct agent {
    uv_loop_t loop;
    struct guardian *guardian;
    struct launch_context *context;
    struct control *control; /* to the launcher, or to the parent in the tree */
    uv_pipe_t parent;        /* closes when the parent process dies */
    char *addresses, *token; /* of the launcher */
    char **inherited_env;    /* what the ranks inherit from this process (strv) */
    char host[256];          /* this host's name */
    int node, port_fd;
    bool released; /* the launcher told the agent to exit, so the connection may end */

    json_t *job_head; /* the message `job`, also for the children; NULL: not received yet */
    struct strbuf job_payload;
    struct node_spec spec;    /* has no plan before it is received */
    struct engine_job *job;   /* NULL: not started */
    struct agent_rank *ranks; /* by index on this node */
    struct agent_stdin stdin_of_rank;
    struct job_monitor *gpus;        /* NULL: they are not sampled */
    int64_t gpus_sent;               /* number of the reading that was sent last */
    uv_timer_t gpus_timer;           /* until the next one */
    bool gpus_refreshed;             /* for the first failure of a rank */
    struct pmix_server_job *pmix;    /* NULL: the job does not use PMIx */
    struct tree tree;                /* of the job's agents */
    struct agent_children *children; /* the agents below this one; NULL: none */
    struct exchange *exchange;       /* NULL: the job has one node, or does not use PMIx */
    struct rank_events of_ranks;     /* of PMIx and PMI-1 */
};

/* ---- agent.c */

/* Connects to the launcher, or to the agent that is the parent in the tree, and says hello. The
 * connection that `a` has remains open if this fails. */
int agent_connect(struct agent *a, const char *addresses, struct err *e);
/* Calls the function that handles a frame of the launcher. */
void agent_handle(struct agent *a, const struct control_frame *f);
/* Send a frame to the launcher, or to the parent in the tree. They take over `head`. */
void agent_send(struct agent *a, json_t *head, const void *payload, size_t len);
void agent_send_bulk(struct agent *a, json_t *head, const void *payload, size_t len);
void agent_send_head(struct agent *a, json_t *head);
/* Reports that no rank of this node can start. */
void agent_send_start_error(struct agent *a, const struct err *e);

/* ---- agent_start.c */

/* Returns the variables that ranks inherit from the agent: those that describe this host or login,
 * and those of Slurm's allocation. The caller frees the result (strv). */
char **agent_start_inherited_env(void);
/* Runs `drover machine`. Appends the topology in the form that topo_import() reads, a newline, and
 * the results of the checks of a job with `ranks` ranks on this node and these GPUs (NULL: all).
 * The checks load GPU libraries, which can hang or crash; the agent must not. Prints the warnings
 * of `drover machine` to stderr. Blocks until the checks have ended. -EIO        `drover machine`
 * failed; the text is its last line -ENOENT, …  `drover machine` could not be started */
int agent_start_probe(struct strbuf *out, int ranks, const char *gpus, struct err *e);
void agent_start_on_topo_request(struct agent *a, const struct control_frame *f);
void agent_start_on_job(struct agent *a, const struct control_frame *f);
void agent_start_on_node_spec(struct agent *a, const struct control_frame *f);
void agent_start_on_start(struct agent *a, const struct control_frame *f);

/* ---- agent_ranks.c */

/* Starts all ranks. Errors as engine_local_start(). */
int agent_ranks_start(struct agent *a, int master_port, struct err *e);
void agent_ranks_on_signal(struct agent *a, const struct control_frame *f);
void agent_ranks_on_stop(struct agent *a, const struct control_frame *f);
void agent_ranks_on_credit(struct agent *a, const struct control_frame *f);
void agent_ranks_on_finish_output(struct agent *a, const struct control_frame *f);
void agent_ranks_on_status_request(struct agent *a, const struct control_frame *f);
void agent_ranks_on_stack(struct agent *a, const struct control_frame *f);
void agent_ranks_on_kill_tree(struct agent *a, const struct control_frame *f);
/* Frees the ranks and the job. */
void agent_ranks_free(struct agent *a);

/* ---- agent_stdin.c */

/* Opens the pipe of the rank that reads stdin. */
int agent_stdin_open(struct agent *a, struct err *e);
/* Closes the rank's end, which the rank has now. */
void agent_stdin_handed_over(struct agent *a);
void agent_stdin_close(struct agent *a);
void agent_stdin_on_stdin(struct agent *a, const struct control_frame *f);

/* ---- agent_gpus.c */

/* Starts to sample the GPUs of the ranks, and to send the readings. */
void agent_gpus_on_sample_gpus(struct agent *a, const struct control_frame *f);
/* Sends a reading at once, since a rank has failed: it precedes the rank's exit. */
void agent_gpus_send_last(struct agent *a);
void agent_gpus_close(struct agent *a);

/* ---- agent_tree.c */

/* Registers the job with this node's PMIx server. */
int agent_tree_join(struct agent *a, struct err *e);
void agent_tree_leave(struct agent *a);
void agent_tree_on_exchange(struct agent *a, const struct control_frame *f);
void agent_tree_on_listen(struct agent *a, const struct control_frame *f);
void agent_tree_on_move(struct agent *a, const struct control_frame *f);
void agent_tree_on_relay(struct agent *a, const struct control_frame *f);
