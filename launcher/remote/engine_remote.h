/* engine_remote - inside the remote engine: what its files share.
 *
 *     engine_remote.c        the job: what it is asked for, and its end
 *     engine_remote_start.c  until the ranks run: listen, resolve, start mpirun, meet everybody
 *     engine_remote_link.c   what the agents say, and what it means that one says no more
 *
 * A rank's output comes as `out` frames. At most CONTROL_WINDOW bytes of a rank are on their way
 * before we say `took`, so a paused job holds no more than that of each. */
#ifndef DROVER_ENGINE_REMOTE_H
#define DROVER_ENGINE_REMOTE_H

#include "launcher/engine/engine.h"
#include "launcher/io/last_lines.h"
#include "launcher/io/rank_output.h"
#include "launcher/io/stdin_reader.h"
#include "launcher/node/resolve.h"
#include "launcher/node/session_dir.h"
#include "launcher/pmi/pmi1.h"
#include "launcher/remote/control.h"
#include "launcher/remote/remote_launcher.h"

enum {
    REMOTE_STREAMS = 2,
    REMOTE_TOKEN_HEX = 64,
    REMOTE_LAUNCHER_LINES = 100 /* of mpirun: ssh's word stands before a long text of its own */
};

/* A rank. */
enum remote_state {
    REMOTE_RANK_EXPECTED,   /* its agent has not come */
    REMOTE_RANK_CONNECTED,  /* it has said hello */
    REMOTE_RANK_CONFIGURED, /* it has its row */
    REMOTE_RANK_STARTED,    /* it was told to start */
    REMOTE_RANK_DONE        /* exited, lost or not started: told */
};

struct remote_job;
struct remote_rank;

/* A connection; whose, is known when it has said hello. */
struct remote_peer {
    struct remote_job *job;
    struct remote_peer *next;
    struct control *link;
    struct remote_rank *rank; /* NULL: a stranger so far */
};

struct remote_stream {
    struct remote_rank *rank;
    enum launch_stream from;
    struct rank_output *io; /* NULL: it has ended */
};

struct remote_rank {
    struct remote_job *job;
    int rank;
    enum remote_state state;
    struct remote_peer *peer; /* NULL: not come, or gone */
    struct remote_stream streams[REMOTE_STREAMS];
    size_t uncredited_bytes;  /* bytes that it does not know yet to be taken */
    bool uses_report_channel; /* it listens for "stop", then */
    bool cleared;             /* nothing of it is left, or nobody can say */
    bool gone;                /* the connection has ended while it ran … */
    char why[128];            /* … like this */
};

enum remote_node {
    REMOTE_NODE_UNKNOWN,
    REMOTE_NODE_REQUESTED,
    REMOTE_NODE_KNOWN
}; /* its topology */

struct remote_job {
    struct engine_job job; /* first */
    struct engine *engine;
    uv_loop_t *loop;
    const struct plan *plan;
    const struct launch_spec *spec;
    struct engine_events ev;
    void *arg;
    char scratch[1]; /* io.c reads no pipe here */

    struct remote_rank *ranks;
    enum remote_node *nodes;
    int ready;       /* ranks that have their row */
    int port_wanted; /* MASTER_PORT, as the user wants it; 0: any */
    int port;        /* as rank 0's node has it; 0: not known yet */
    bool master_addr_given;
    bool failed; /* some rank did not end with 0 */
    bool started, paused, clearing, released, done;
    int resume_from;

    char token[REMOTE_TOKEN_HEX + 1];
    uv_tcp_t listener;
    bool listening;
    struct remote_peer *peers;
    int unauthenticated;
    bool accept_deferred, rejection_logged;
    char **base_env;    /* of the starter */
    struct strbuf base; /* what ranks inherit of it: rank_spec_base_env() */
    char cwd[4096];
    struct pmi1 *pmi1; /* for ranks of MPICH; those of others find what mpirun or srun serves */
    struct stdin_reader *source; /* our stdin, for spec.stdin_rank */

    const struct remote_launcher *starter;
    struct plan *starter_plan;
    struct engine_job *starting;        /* the starter's own job */
    struct last_lines *launcher_output; /* its last lines */
    int launchers_running;
    int starter_wait; /* its wait status */
    const struct remote_rank
        *orphan;      /* whose `drover rank` was killed, the half that mpirun knows */
    bool cause_known; /* what it said is known and told in our words */
    struct session_dir *workdir;
    char *hostfile, *program;
    char **candidates; /* addresses of ours that the hosts can reach */
    struct resolve *resolve;
    char **names;    /* that are looked up: … */
    int *named;      /* … of which rank's host; < 0: answered */
    int lookups;     /* not answered so far */
    bool unresolved; /* some name is known to nobody here */

    uv_timer_t deadline;            /* for everybody to come; then for what is to be cleared */
    uv_timer_t lost_timer;          /* on connections that have ended */
    uv_timer_t launcher_exit_timer; /* after mpirun's end */
    uv_timer_t soon;                /* what must not happen inside a call */
    char failure[256];              /* of the start, to be told then; empty: none */
    int failure_rank, failure_status;
    int open_handles;
};

/* ---- engine_remote.c */
const char *engine_remote_host(const struct remote_job *j, int rank);
/* The start has failed: `rank` for that reason, and all others with it. Told on the loop's next
 * turn; the first counts. */
void engine_remote_fail_start(struct remote_job *j, int rank, int status, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void engine_remote_output(struct remote_rank *r, enum launch_stream from, const char *bytes,
                          size_t len);
/* The rank's output is at its end. */
void engine_remote_output_eof(struct remote_rank *r);
/* After a rank or the starter has gone: is the job's clearing done? */
void engine_remote_check_reaped(struct remote_job *j);
/* A reference to the lifetime of `j` less. */
void engine_remote_unref(struct remote_job *j);

/* ---- engine_remote_start.c */
int remote_start_listen(struct remote_job *j, struct err *e);
void remote_start_stop_listening(struct remote_job *j);
/* Resolves the hosts, then starts the starter. */
int remote_start_resolve(struct remote_job *j, struct err *e);
/* "10.0.0.1:4000,…": where the ranks find us. To be freed. */
char *remote_start_addresses(const struct remote_job *j);
/* The rank has said hello; its node's topology has come. */
void remote_start_rank_connected(struct remote_rank *r);
void remote_start_node_known(struct remote_job *j, int node);
/* Starts all where all are ready. */
void remote_start_when_ready(struct remote_job *j);
/* Somebody has not come in time. */
void remote_start_timed_out(struct remote_job *j);

/* ---- engine_remote_link.c */
void remote_peers_accept(struct remote_job *j);
/* PMI-1 for the ranks: their agents carry what they say. */
void remote_peers_serve_pmi(struct remote_job *j);
void remote_peers_drop(struct remote_peer *p);
/* The starter has ended, though ranks may run. */
void remote_peers_launcher_exited(struct remote_job *j);

#endif
