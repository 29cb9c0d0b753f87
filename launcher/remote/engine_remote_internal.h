/* engine_remote - the remote engine: what its files share.
 *
 *     engine_remote.c   the job: requests of the engine's user, the states, the end
 *     remote_start.c    until the ranks run: listen, resolve, start the launcher, configure agents
 *     remote_peers.c    frames of the agents, and what the end of a connection means
 *
 * A rank's output arrives as `output` frames. An agent sends at most CONTROL_WINDOW bytes ahead of
 * the `credit` frames that it gets, so a job whose output is paused holds no more than that per
 * rank. */
#ifndef DROVER_ENGINE_REMOTE_INTERNAL_H
#define DROVER_ENGINE_REMOTE_INTERNAL_H

#include "launcher/engine/engine.h"
#include "launcher/io/last_lines.h"
#include "launcher/io/rank_output.h"
#include "launcher/io/stdin_reader.h"
#include "launcher/node/resolve.h"
#include "launcher/node/session_dir.h"
#include "launcher/pmi/pmi1.h"
#include "launcher/remote/control.h"
#include "launcher/remote/remote_job_state.h"
#include "launcher/remote/remote_launcher.h"
#include "launcher/remote/remote_rank_state.h"

enum {
    REMOTE_STREAMS = 2,
    REMOTE_TOKEN_HEX = 64,
    REMOTE_START_MS = 60000, /* time limit of the start if the spec has none */
    REMOTE_LAUNCHER_LINES =
        100 /* last lines of mpirun: ssh's message precedes a long one of its own */
};

struct remote_job;
struct remote_rank;

/* A connection of an agent. */
struct remote_peer {
    struct remote_job *job;
    struct remote_peer *next;
    struct control *control;
    struct remote_rank *rank; /* NULL: not authenticated yet */
};

struct remote_stream {
    struct remote_rank *rank;
    enum launch_stream from;
    struct rank_output *output; /* NULL: the stream has ended */
    bool awaits_turn;           /* it holds bytes for another stream's turn */
};

struct remote_rank {
    struct remote_job *job;
    int rank;
    enum remote_rank_state state;
    struct remote_peer *peer; /* NULL: its agent is not connected */
    struct remote_stream streams[REMOTE_STREAMS];
    size_t uncredited_bytes;  /* received, and not credited to the agent yet */
    bool uses_report_channel; /* it has reported, so it listens for "stop", too */
    bool tree_reaped;         /* no process of it is left, or no agent can tell */
    char lost_cause[128];     /* why its connection ended while it ran */
};

/* What is known of a node's topology. */
enum remote_topo_state { REMOTE_TOPO_UNKNOWN, REMOTE_TOPO_REQUESTED, REMOTE_TOPO_KNOWN };

/* Why the start failed. Set with REMOTE_JOB_EV_START_FAILED. */
struct remote_start_failure {
    char text[256];
    int rank;   /* the rank to name first */
    int status; /* exit status of the job: 2, 126 or 127 */
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
    char scratch[1]; /* rank_output.c reads no pipe here */

    struct remote_rank *ranks;
    struct rank_output_group groups[REMOTE_STREAMS];
    enum remote_topo_state *topo_states; /* per node */
    int configured;                      /* number of ranks that have their rank spec */
    int port_wanted;                     /* MASTER_PORT as the user chose it; 0: any */
    int port;                            /* MASTER_PORT on rank 0's node; 0: not known yet */
    char master_addr[64];
    bool master_addr_given; /* by the user */
    bool failed;            /* some rank did not exit with 0 */
    bool output_paused;
    int resume_from;

    char token[REMOTE_TOKEN_HEX + 1];
    uv_tcp_t listener;
    struct remote_peer *peers;
    int unauthenticated; /* number of such peers */
    bool rejection_logged;
    char **base_env;             /* of the remote launcher */
    struct strbuf rank_base_env; /* what ranks inherit of it: rank_spec_base_env() */
    char cwd[4096];
    struct pmi1 *pmi1; /* for MPICH's ranks; other MPIs find the PMIx server of mpirun or srun */
    struct stdin_reader *stdin_reader; /* this process's stdin, for spec.stdin_rank */

    const struct remote_launcher *launcher;
    struct plan *launcher_plan;
    struct engine_job *launcher_job;    /* NULL: not started, or nothing of it is left */
    struct last_lines *launcher_output; /* its last lines */
    int launchers_running;
    int launcher_wait_status;
    bool launcher_cause_known;        /* drover has explained the launcher's failure */
    const struct remote_rank *orphan; /* a rank whose agent's parent was killed */
    struct session_dir *session_dir;
    char *hostfile, *program;
    char **candidates; /* addresses of this node that the other nodes can reach */
    struct resolve *resolve;
    char **names;    /* host names that are looked up */
    int *name_ranks; /* a rank on the host names[i]; < 0: answered */
    int pending_lookups;
    bool unresolved; /* some name is unknown on this node */

    uv_timer_t limit_timer;         /* the limit of the state: start, reap, or launcher's exit */
    uv_timer_t lost_timer;          /* from a connection's end to the verdict */
    uv_timer_t launcher_exit_timer; /* from the launcher's end to the conclusion */
    uv_timer_t next_turn;           /* what must not happen inside a call of the engine's user */
    struct remote_start_failure failure;
    int open_handles;
};

/* ---- engine_remote.c */

/* Changes the state and does what the new state requires. Returns false if the event has no meaning
 * in this state; it is then logged and dropped. */
bool engine_remote_apply(struct remote_job *j, enum remote_job_event ev);
/* Changes the rank's state. Returns false as above. */
bool engine_remote_apply_rank(struct remote_rank *r, enum remote_rank_event ev);
/* Returns the planned name of the rank's node. */
const char *engine_remote_host(const struct remote_job *j, int rank);
/* Fails the start for the reason given. All ranks are reported as not started on the loop's next
 * turn, `rank` first. Has no effect if the start has failed already or is complete. */
void engine_remote_fail_start(struct remote_job *j, int rank, int status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Sends a frame without payload to the rank's agent, if that is connected. Takes over `head`. */
void engine_remote_send(struct remote_rank *r, json_t *head);
void engine_remote_output(struct remote_rank *r, enum launch_stream from, const char *bytes,
                          size_t len);
/* The rank's output has ended. */
void engine_remote_output_eof(struct remote_rank *r);
/* Reports that the rank was not started, and closes its streams. */
void engine_remote_not_started(struct remote_rank *r, int status, bool node_fault, const char *why);
/* Reports that the rank is lost, if it is not done. Its tree counts as reaped. */
void engine_remote_lose(struct remote_rank *r, const char *why);
/* No agent can tell of the rank any more: its tree counts as reaped, its output has ended. */
void engine_remote_abandon_rank(struct remote_rank *r);
/* Checks on the loop's next turn whether a job in REAPING is reaped. */
void engine_remote_check_reaped(struct remote_job *j);
/* Drops one reference to the lifetime of `j`: a handle has closed. */
void engine_remote_unref(struct remote_job *j);

/* ---- remote_start.c */

int remote_start_listen(struct remote_job *j, struct err *e);
void remote_start_stop_listening(struct remote_job *j);
bool remote_start_is_listening(const struct remote_job *j);
/* Resolves the names of the other nodes if there are any, and starts the remote launcher then. */
int remote_start_begin(struct remote_job *j, struct err *e);
/* Returns "10.0.0.1:4000,…": where agents connect to. The caller frees it. */
char *remote_start_addresses(const struct remote_job *j);
/* The rank's agent has authenticated: sends the rank spec, or requests the topology. */
void remote_start_rank_connected(struct remote_rank *r);
/* The node's topology is known: sends the rank specs that waited for it. */
void remote_start_topo_known(struct remote_job *j, int node);
/* Starts all ranks if all agents are configured and MASTER_PORT is known. */
void remote_start_when_ready(struct remote_job *j);
/* Enters RUNNING: sends `start` to every agent. */
void remote_start_enter_running(struct remote_job *j);
/* The start limit is reached: fails the start with what is missing. */
void remote_start_timed_out(struct remote_job *j);

/* ---- remote_peers.c */

void remote_peers_accept(struct remote_job *j);
/* Serves PMI-1 for the ranks; their agents forward its lines. */
void remote_peers_serve_pmi(struct remote_job *j);
void remote_peers_drop(struct remote_peer *p);
/* A process of the remote launcher has ended; ranks may still run. */
void remote_peers_launcher_exited(struct remote_job *j);

#endif
