/* engine_remote - the state of the remote engine, shared by its files.
 *
 *     engine_remote.c   the job: requests of the engine's user, the states, the end
 *     remote_start.c    the start: listens, resolves names, configures agents
 *     remote_processes.c  the processes of the remote launcher
 *     remote_node.c     the nodes and their states
 *     remote_output.c   the output of the ranks
 *     remote_peers.c    the agents' connections: frames, and lost connections
 *     remote_tree.c     nodes that are reached through the agents of other nodes
 *
 * Each node has one agent. Its connection is used only by remote_peers.c and remote_tree.c.
 *
 * A rank's output arrives as `output` frames. An agent may have sent at most control_window() bytes
 * of a rank that are not credited by a `credit` frame. So while a job's output is paused, drover
 * holds at most this many bytes per rank, and a rank whose output is paused does not pause the
 * others. */
#pragma once

#include "common/wait_line.h"
#include "launcher/engine/engine.h"
#include "launcher/io/last_lines.h"
#include "launcher/io/rank_output.h"
#include "launcher/io/stdin_reader.h"
#include "launcher/node/resolve.h"
#include "launcher/node/session_dir.h"
#include "launcher/node/topo_known.h"
#include "launcher/remote/control/control.h"
#include "launcher/remote/remote_launcher.h"
#include "launcher/remote/remote_state.h"
#include "launcher/tree/exchange.h"
#include "launcher/tree/tree_members.h"

enum {
    REMOTE_STREAMS = 2,
    REMOTE_TOKEN_HEX = 64,
    REMOTE_START_MS = 60000,    /* time limit of the start if the spec has none */
    REMOTE_LAUNCHER_LINES = 100 /* the last ones; mpirun prints many after ssh's message */
};

struct remote_job;
struct remote_node;

/* A connection of an agent. */
struct remote_peer {
    struct remote_job *job;
    struct remote_peer *next;
    struct control *control;
    struct remote_node *node;  /* NULL: not authenticated yet, or `moves` */
    struct remote_node *moves; /* the node whose agent has connected to learn where its parent in
                                  the tree is; NULL: none */
};

struct remote_stream {
    struct remote_rank *rank;
    enum launch_stream from;
    struct rank_output *output; /* NULL: the stream has ended */
    bool awaits_turn;           /* `output` holds bytes because it is another stream's turn */
};

struct remote_rank {
    struct remote_node *node;
    int rank;
    enum remote_rank_state state;
    struct remote_stream streams[REMOTE_STREAMS];
    size_t uncredited_bytes;  /* received bytes that are not credited to the agent yet */
    bool uses_report_channel; /* the rank has reported, so it also listens for "stop" */
};

struct remote_node {
    struct remote_job *job;
    int node;
    enum remote_node_state state;
    struct remote_peer *peer;      /* NULL: its agent is not connected */
    struct control_endpoints ends; /* of the agent's first connection */
    struct remote_rank **ranks;    /* those of the node, ascending */
    int rank_count;
};

/* Why the start failed. Set when REMOTE_JOB_EV_START_FAILED is applied. */
struct remote_start_failure {
    char text[800];
    int node;   /* its first rank is reported first */
    int status; /* exit status of the job: 2, 126 or 127 */
};

/* The processes of the remote launcher. */
struct remote_processes {
    bool per_node;                    /* one per node, and not one for the job */
    struct plan *plan;                /* of the local job that they are */
    struct launch_spec spec;          /* of this job */
    struct engine_start_opts opts;    /* for processes that start later */
    char *stdin_text;                 /* what each of them reads from stdin; NULL: nothing */
    struct engine_job *job;           /* NULL: not started, or none of them is left */
    struct last_lines *output;        /* their last lines; per_node: each after "HOST: " */
    int started, running;             /* numbers of them; those that wait are not started */
    int wait_status;                  /* of the first process that has failed */
    int failed_node;                  /* per_node: its node; -1: none */
    bool cause_known;                 /* drover has explained the failure */
    const struct remote_node *orphan; /* a node whose agent's parent was killed */
    uv_timer_t exit_timer;            /* from their exit until the job is told of it */
};

struct remote_job {
    struct engine_job job; /* first */
    enum remote_job_state state;
    struct engine *engine;
    uv_loop_t *loop;
    const struct plan *plan;
    const struct launch_spec *spec;
    struct engine_events ev;
    void *arg;
    char scratch[1]; /* not used, since rank_output.c reads no pipe here */

    struct remote_rank *ranks;
    struct remote_node *nodes;
    struct remote_rank **ranks_by_node; /* remote_node.ranks of all nodes */
    struct rank_output_group groups[REMOTE_STREAMS];
    int ready;       /* number of nodes whose agents have sent `ready` */
    int port_wanted; /* MASTER_PORT as the user chose it; 0: any */
    int port;        /* MASTER_PORT on rank 0's node; 0: not known yet */
    char master_addr[64];
    bool master_addr_given;   /* the user set MASTER_ADDR */
    struct topo_known *topos; /* those of the nodes, if they differ */
    bool has_fabric; /* a node has one (topo_has_fabric()), as far as topologies are known */
    bool failed;     /* some rank did not exit with 0 */
    bool output_paused;
    int resume_from;

    char token[REMOTE_TOKEN_HEX + 1];
    uv_tcp_t listener;
    int listener_fd; /* holds its port; -1: --port-range is not given */
    struct remote_peer *peers;
    int unauthenticated; /* number of such peers */
    bool rejection_logged;
    char **base_env;             /* of the remote launcher */
    struct strbuf rank_base_env; /* the part of it that ranks inherit: node_spec_base_env() */
    json_t *job_head;            /* the message `job`; NULL: not made yet */
    struct strbuf job_payload;
    char cwd[4096];
    struct tree tree;
    struct tree_members *members; /* which agents are at their places in the tree */
    struct {
        const struct remote_node *top; /* all below it are lost, too */
        const char *why;
    } loss;          /* of tree_members_lose(), while it runs */
    int *rank_nodes; /* the node of each rank, for `exchange` */
    struct exchange *exchange;
    struct stdin_reader *stdin_reader; /* this process's stdin, for spec.node.stdin_rank */

    const struct remote_launcher *launcher;
    struct remote_processes processes;
    struct session_dir *session_dir;
    char *hostfile, *program;
    char **candidates; /* addresses of this node that the other nodes can reach */
    struct resolve *resolve;
    char **names;    /* the host names to look up */
    int *name_nodes; /* the node with the host names[i]; < 0: names[i] is already answered */
    int pending_lookups;
    bool unresolved; /* some name is unknown on this node */

    int64_t started_ms, ticked_ms; /* the loop's time; pauses of this process do not count */
    uv_timer_t start_tick;         /* while the job starts: once per second */
    struct wait_line wait;
    uv_timer_t limit_timer;    /* time limit of the state: for the start, the reaping, or the
                                  launcher's exit */
    uv_timer_t exchange_timer; /* until a lookup's wait ends */
    uv_timer_t move_timer;     /* until an agent must have reached its parent in the tree */
    uv_timer_t next_turn;      /* does what must not be done inside a call of the engine's user */
    struct remote_start_failure failure;
    int open_handles;
};

/* ---- engine_remote.c */

/* Changes the state and performs the actions of the new state. If the event has no meaning in the
 * present state, logs it and returns false. */
bool engine_remote_apply(struct remote_job *j, enum remote_job_event ev);
/* Changes the rank's state. If the event has no meaning in the present state, logs it and returns
 * false. */
bool engine_remote_apply_rank(struct remote_rank *r, enum remote_rank_event ev);
/* Fails the start for the reason given. All ranks are reported as not started on the loop's next
 * turn, those of `node` first. Has no effect if the start has failed already or is complete. */
void engine_remote_fail_start(struct remote_job *j, int node, int status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Reports that the rank was not started, and closes its streams. */
void engine_remote_not_started(struct remote_rank *r, int status, bool node_fault, const char *why);
/* Checks on the loop's next turn whether a job in REAPING is reaped. */
void engine_remote_check_reaped(struct remote_job *j);
/* Counts a handle of the job that has closed. After the last one, frees the job. */
void engine_remote_on_closed(uv_handle_t *h);

/* ---- remote_node.c */

/* Creates the states of all nodes and ranks of the plan. */
void remote_node_make_all(struct remote_job *j);
/* Returns the name that the node has in the plan. */
const char *remote_node_host(const struct remote_node *n);
/* Changes the node's state. If the event has no meaning in the present state, logs it and returns
 * false. */
bool remote_node_apply(struct remote_node *n, enum remote_node_event ev);
/* Returns true if the node's ranks are done, their output has ended, and none of their processes is
 * left. */
bool remote_node_is_cleared(const struct remote_node *n);
/* Handles that a node has no agent any more: its running ranks are lost, the output of all its
 * ranks has ended, and its processes count as reaped. */
void remote_node_lose(struct remote_node *n, const char *why);

/* ---- remote_output.c */

/* Opens a stream of a rank, and its file if the spec wants one. */
int remote_output_open(struct remote_stream *s, struct err *e);
/* Handles bytes that a rank has written. */
void remote_output_feed(struct remote_rank *r, enum launch_stream from, const char *bytes,
                        size_t len);
/* Handles the end of the rank's output. */
void remote_output_end(struct remote_rank *r);
/* Resumes the output of all ranks, as engine_ops.resume. */
void remote_output_resume(struct engine_job *job);

/* ---- remote_start.c */

int remote_start_listen(struct remote_job *j, struct err *e);
void remote_start_stop_listening(struct remote_job *j);
/* Resolves the names of the other nodes, if there are any. Starts the remote launcher when all
 * names are resolved. */
int remote_start_begin(struct remote_job *j, struct err *e);
/* Returns the addresses to which agents connect: "10.0.0.1:4000,…". The caller frees the text. */
char *remote_start_addresses(const struct remote_job *j);
/* Handles the hello of a node's agent: requests the node's topology. */
void remote_start_node_connected(struct remote_node *n);
/* Sends the node spec, since the node's topology is known. */
void remote_start_topo_known(struct remote_node *n);
/* Starts all ranks, if all agents are ready and MASTER_PORT is known. */
void remote_start_when_ready(struct remote_job *j);
/* Performs the actions of the state RUNNING: sends `start` to every agent. */
void remote_start_enter_running(struct remote_job *j);
/* Starts the start limit. At the limit, the start fails, and the error names what is missing. */
void remote_start_limit(struct remote_job *j);

/* ---- remote_peers.c */

void remote_peers_accept(struct remote_job *j);
/* Creates the launcher's part of what the nodes' PMIx servers exchange. */
void remote_peers_open_exchange(struct remote_job *j);
void remote_peers_drop(struct remote_peer *p);
/* Checks the first frame of an agent. Returns the node of the agent; NULL: the agent is rejected
 * for the reason `e`. */
struct remote_node *remote_peers_check_hello(struct remote_job *j, const struct control_frame *f,
                                             struct err *e);
/* Handles a frame of a node's agent, through whichever connection it arrives. */
void remote_peers_handle(struct remote_node *n, const struct control_frame *f);
/* Handles the end of the way to a node's agent, and so to all nodes below it. */
void remote_peers_lose(struct remote_node *n, bool silent, const char *why);

/* ---- remote_processes.c */

void remote_processes_open(struct remote_job *j);
void remote_processes_free(struct remote_processes *p);
/* Finds the launcher's program, and writes the host file.
 *   -ENOENT  the program is not installed */
int remote_processes_prepare(struct remote_job *j, struct err *e);
/* Starts the processes, or the first ones, if there is a limit. */
int remote_processes_start(struct remote_job *j, struct err *e);
/* Handles that an agent has connected: starts the next process. */
void remote_processes_agent_connected(struct remote_job *j);
/* Handles the death of the parent of a node's agent, which mpirun or a user has killed, or the end
 * of the process that has started this parent. The job counts as aborted. */
void remote_processes_orphaned(struct remote_node *n);

/* ---- remote_tree.c */

/* Sends a frame to the node's agent, if the agent is connected. Takes over `head`. */
void remote_tree_send(struct remote_node *n, json_t *head, const void *payload, size_t len);
/* Sends a frame to the agents of all nodes. Takes over `head`. */
void remote_tree_broadcast(struct remote_job *j, json_t *head, const void *payload, size_t len);
void remote_tree_open(struct remote_job *j);
/* Handles the hello of a node on a connection to the launcher. The agent stays, or moves to its
 * parent in the tree. Errors as tree_members_hello(). */
int remote_tree_hello(struct remote_peer *p, struct remote_node *n);
/* Returns true if the agent was told where its parent is, so its connection may end. */
bool remote_tree_has_moved(const struct remote_peer *p);
/* Loses a node for the reason `why`, and all nodes below it. */
void remote_tree_lose(struct remote_node *n, const char *why);
void remote_tree_on_listening(struct remote_node *n, const struct control_frame *f);
/* Handle frames of a child of the launcher about the nodes below it. */
void remote_tree_on_relay(struct remote_node *way, const struct control_frame *f);
void remote_tree_on_lost(struct remote_node *way, const struct control_frame *f);
