/* engine - the interface that starts the ranks of a plan, transports their output, and reports how
 * they end. launch.c decides what that means for the job.
 *
 * There are two engines. engine_local starts the ranks as children of this process's guardian.
 * engine_remote has one agent per node (agent/agent.h). A remote launcher such as mpirun or srun
 * starts the agents, and each agent starts the ranks of its node as a local job. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/engine/launch.h"
#include "launcher/engine/rank_status.h"
#include "launcher/guardian/guardian.h"
#include "launcher/job/collective_mismatch.h"
#include "launcher/node/topo.h"
#include "launcher/plan/job_map.h"
#include "launcher/plan/plan.h"
#include "launcher/pmi/rank_events.h"

struct engine;

/* Opens the engine. Borrows the loop and the guardian. A guardian can have only one engine. */
int engine_open(struct engine **out, uv_loop_t *loop, struct guardian *g, struct err *e);
/* Closes the engine. Call this only when no job is left. The engine's handles close in the loop's
 * next iteration. */
void engine_close(struct engine *en);
AUTO_DEFINE(engine, struct engine *, engine_close)
/* Returns true if the guardian was killed: no job can be started any more. */
bool engine_has_ended(const struct engine *en);
uv_loop_t *engine_loop(const struct engine *en);

struct engine_job;

/* The loop calls all of these functions. A function may be NULL only if its comment says so. */
struct engine_events {
    /* A node has sent its topology, and its ranks are not started yet. The callee corrects the plan
     * with plan_set_node(). If the callee fails, the job ends. The local engine does not emit
     * `node` and `address`, so both may be NULL for it. */
    int (*node)(void *arg, int node, const struct topo *t, struct err *e);
    /* A node has checked itself, because the spec asked for it (launch_spec.preflight). `text` is
     * what preflight_export() has written there. If the callee fails, the job ends. May be NULL. */
    int (*checked)(void *arg, int node, const char *text, size_t len, struct err *e);
    /* All nodes are ready, and no rank is started yet. If the callee fails, the job ends with
     * status 1, and `*node` is the node to blame. May be NULL; the local engine does not emit it.
     */
    int (*ready)(void *arg, int *node, struct err *e);
    /* `master_addr` is the address at which the other nodes reach rank 0's node. Emitted before any
     * rank starts. */
    void (*address)(void *arg, const char *master_addr);
    /* `pid` is 0 if the rank is on another node. The local engine allows NULL here and as `eof`. */
    void (*started)(void *arg, int rank, pid_t pid);
    /* `status` is the exit status for the job: 127 if the program was not found, 2 if an option or
     * a file of the user is wrong, else 126. `node_fault`: the program is not the cause; another
     * node may be able to start it. No `exited` follows. */
    void (*not_started)(void *arg, int rank, int status, bool node_fault, const char *why);
    /* The rank's process has exited. `oom_killed` is true if the kernel killed the rank because
     * memory ran out. `error` is the text of the rank's TORCHELASTIC_ERROR_FILE, or NULL if the
     * rank has written no text or has not failed. */
    void (*exited)(void *arg, int rank, int wait_status, bool oom_killed, const char *error);
    /* The state of the rank is unknown from now on; the rank counts as ended. `why` names its
     * node. */
    void (*lost)(void *arg, int rank, const char *why);
    /* The job cannot continue: the remote launcher or a node's guardian has ended. Ranks may still
     * run. The local engine allows NULL. */
    void (*broken)(void *arg, const char *why);
    /* Events of PMI-1 and, from other nodes, of PMIx. The answer to a message of PMI-1 for the
     * other nodes, which only the local engine emits, is for engine_local_deliver(). NULL: there is
     * no PMI-1. */
    const struct rank_events *of_ranks;
    /* The same as launch_events.line. If the callee returns false, the output of the whole job
     * pauses until engine_ops.resume. */
    bool (*line)(void *arg, int rank, enum launch_stream from, const char *text, size_t len);
    /* If not NULL, the local engine calls this instead of `line`, with bytes as they arrive. If the
     * callee returns false, only the output of this rank pauses, until engine_local_resume_rank().
     */
    bool (*bytes)(void *arg, int rank, enum launch_stream from, const char *bytes, size_t len);
    /* End of output: both streams of the rank have ended. Not emitted for a rank that was not
     * started. */
    void (*eof)(void *arg, int rank);
    void (*report)(void *arg, int rank, const char *json, size_t len);
    /* The answer to engine_ops.request_status; may be NULL. */
    void (*rank_status)(void *arg, int rank, const struct rank_status *s);
    /* The answer to engine_ops.request_stack. `text` has complete lines and at most
     * CALL_STACKS_TEXT_MAX bytes; it is empty if no tool can read the stack. The function may be
     * NULL. */
    void (*stack)(void *arg, int rank, const char *text);
    /* The GPUs of a node on another machine, about once per second, because the spec asked for them
     * (launch_spec.sample_gpus). `text` is for job_monitor_import(). May be NULL. */
    void (*node_gpus)(void *arg, int node, const char *text, size_t len);
    /* The answer to engine_ops.kill_tree: no process of the job is left. */
    void (*reaped)(void *arg);
    /* The same as launch_events.partial_line. */
    void (*partial_line)(void *arg, int rank, enum launch_stream from, const char *text,
                         size_t len);
};

struct engine_start_opts {
    const struct plan *plan; /* must outlive the job; the other fields need not */
    const struct launch_spec *spec;
    char *const *base_env;
    char *const *pmix_env; /* local: pmix_server_env(); NULL: drover does not serve PMIx */
    /* Local, needed with `pmix_env`; must outlive the job. plan.ranks[i] is the rank map->local[i]
     * of the whole job. PMIx and PMI-1 number ranks like this, also in `of_ranks`; all other
     * events and all functions of the engine use the index in the plan. */
    const struct job_map *map;
    int master_port; /* local: MASTER_PORT; remote: the one that the user set, 0: any */
    int at_once; /* local: as many ranks start, and the others with engine_local_start_next(); 0:
                    all start */
    const char *stdin_text; /* local: what each rank reads from stdin, at most PIPE_BUF bytes; NULL:
                               as the spec says */
};

/* The functions of an engine. The engine's own struct for a job begins with struct engine_job. */
struct engine_ops {
    /* Frees the job. Call this only after `reaped`, or inside it. No event follows. */
    void (*free)(struct engine_job *j);
    /* Sends a signal to the process group of the rank; if `rank` is -1, of each rank. */
    void (*signal)(struct engine_job *j, int rank, int sig);
    /* Asks the ranks that have used their report channel to stop. Returns false if none has. */
    bool (*request_stop)(struct engine_job *j);
    void (*resume)(struct engine_job *j);
    /* Ends the output of a rank that has exited while other processes hold it open: delivers what
     * has arrived, then emits `eof`. */
    void (*finish_output)(struct engine_job *j, int rank);
    /* Requests the status of the ranks on other nodes. `rank_status` follows for each running rank,
     * and again before the exit of each rank that has a collective trace. */
    void (*request_status)(struct engine_job *j);
    /* Sends SIGKILL to the process trees of the job, and to processes that have left these trees.
     * `reaped` follows. */
    void (*kill_tree)(struct engine_job *j);
    /* Writes the rank's position in its collectives to `out`. `out` is zero if the rank does not
     * run, and did not run, on this node. NULL: no rank runs on this node. */
    void (*last_collective)(const struct engine_job *j, int rank, struct collective_position *out);
    /* Requests the call stack of a rank on another node. `stack` follows within
     * CALL_STACKS_LIMIT_MS and the time of both messages, or never if the rank has ended. NULL: no
     * rank runs on another node. */
    void (*request_stack)(struct engine_job *j, int rank);
};

struct engine_job {
    const struct engine_ops *ops;
};

/* `j` may be NULL. */
void engine_free(struct engine_job *j);

/* Opens the file that the spec names for a stream of a rank, and creates its directories. The file
 * is open for appending, so that others may cut it while the job runs; an earlier job's is
 * emptied. `*fd` stays
 * unchanged if the spec names none. */
int engine_open_file(int *fd, const struct launch_spec *s, const struct plan *p, int rank,
                     enum launch_stream from, struct err *e);

/* Starts all ranks on this node, even if the plan names another engine. On failure no rank runs. */
int engine_local_start(struct engine_job **out, struct engine *en,
                       const struct engine_start_opts *o, const struct engine_events *ev, void *arg,
                       struct err *e);
/* Resumes the output of one rank, after the event `bytes` has paused it. */
void engine_local_resume_rank(struct engine_job *j, int rank);
/* Handles the answer to the event `exchange` of the ranks. */
void engine_local_deliver(struct engine_job *j, const struct exchange_message *m);
/* Starts the next rank of a job that was started with `at_once`, with the same `o`. Call this as
 * often as ranks are left. */
int engine_local_start_next(struct engine_job *job, const struct engine_start_opts *o,
                            struct err *e);
/* Starts ranks on the nodes of the plan. `spec` must stay valid until `reaped`. On failure no rank
 * runs.
 *   -ENOENT  mpirun or srun is not installed */
int engine_remote_start(struct engine_job **out, struct engine *en,
                        const struct engine_start_opts *o, const struct engine_events *ev,
                        void *arg, struct err *e);
/* See launch_join_ticket(). */
char *engine_remote_join_ticket(const struct engine_job *j, const char **token);
