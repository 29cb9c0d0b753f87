/* engine - starts the ranks that a plan names, carries their output, and tells how they end. What
 * that means for the job is launch.c's matter.
 *
 * Two of them: engine_local, whose ranks are children of this process's guardian, and
 * engine_remote, whose ranks are run by a `drover rank` each, which mpirun or srun has started on
 * their nodes (agent.h). */
#ifndef DROVER_ENGINE_H
#define DROVER_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/diagnose/collective_mismatch.h"
#include "launcher/engine/launch.h"
#include "launcher/guardian/guardian.h"
#include "launcher/inspect/rank_status.h"
#include "launcher/node/topo.h"
#include "launcher/plan/plan.h"

struct engine;

/* Borrows both; one engine for each guardian. */
int engine_open(struct engine **out, uv_loop_t *loop, struct guardian *g, struct err *e);
/* Only with no job left. Its handles close on the loop's next turn. */
void engine_close(struct engine *en);
AUTO_DEFINE(engine, struct engine *, engine_close)
uv_loop_t *engine_loop(const struct engine *en);

struct engine_job;

/* All come from the loop. Where one may be NULL, that is said. */
struct engine_events {
    /* A node has told its topology, before its ranks are asked for: the plan is to be put right
     * (plan_set_node()). A failure ends the job. Not from the local engine, and may then be NULL;
     * so `address`. */
    int (*node)(void *arg, int node, const struct topo *t, struct err *e);
    /* Where rank 0's node is reached by the others; before any rank starts. */
    void (*address)(void *arg, const char *master_addr);
    /* `pid` is 0 where the rank is on another node. */
    void (*started)(void *arg, int rank, pid_t pid);
    /* `status` is what the rank's job ends with: 127 the program was not found, 126 another reason,
     * 2 something that the user has named is wrong. No `exited` follows. */
    void (*not_started)(void *arg, int rank, int status, const char *why);
    /* `oom_killed`: the kernel ended it for memory. */
    void (*exited)(void *arg, int rank, int wait_status, bool oom_killed);
    /* Nobody knows any more what the rank does; it counts as ended. `why` names its node. */
    void (*lost)(void *arg, int rank, const char *why);
    /* The ranks run, but the job cannot go on: what has started them has ended. */
    void (*broken)(void *arg, const char *why);
    /* The rank has attached to PMI-1. Only from the local engine; may be NULL. */
    void (*joined)(void *arg, int rank);
    /* The rank called MPI_Abort(code). */
    void (*aborted)(void *arg, int rank, int code);
    /* As launch_events has it; false asks for a pause of the whole job's output. */
    bool (*line)(void *arg, int rank, enum launch_stream from, const char *text, size_t len);
    /* In place of `line`, where not NULL: bytes as they come. */
    bool (*bytes)(void *arg, int rank, enum launch_stream from, const char *bytes, size_t len);
    /* Both streams of the rank have ended. Not for one that was not started. */
    void (*quiet)(void *arg, int rank);
    void (*report)(void *arg, int rank, const char *json, size_t len);
    /* What the rank says in PMI-1 (pmi1.h), for engine_pmi_reply() to be answered; only from the
     * local engine. NULL: it is served there, where the ranks meet. */
    void (*pmi)(void *arg, int rank, const char *bytes, size_t len);
    /* The answer to engine_request_status(); may be NULL. */
    void (*standing)(void *arg, int rank, const struct rank_status *s);
    /* The answer to engine_request_stack(): whole lines, CALL_STACKS_TEXT_MAX bytes at most, empty
     * where nothing can tell it. May be NULL. */
    void (*stack)(void *arg, int rank, const char *text);
    /* The answer to engine_kill_tree(). */
    void (*cleared)(void *arg);
    /* As launch_events has it. */
    void (*begun)(void *arg, int rank, enum launch_stream from, const char *text, size_t len);
};

struct engine_start_opts {
    const struct plan *plan; /* must outlive the job; the rest is needed only during the call */
    const struct launch_spec *spec;
    char *const *base_env;
    char *const *pmix_env; /* local: pmix_server_env(), where the ranks meet; NULL: not here */
    int master_port;       /* local: of the job; remote: the wanted one, 0: any */
};

/* After `cleared`, or in it. No event follows. */
void engine_free(struct engine_job *j);

/* To the rank's process group; rank -1: to every rank's. */
void engine_signal(struct engine_job *j, int rank, int sig);
/* Asks the ranks that have used their report channel to stop; false where none has. */
bool engine_request_stop(struct engine_job *j);
void engine_resume(struct engine_job *j);
/* The rank has ended but others hold its output open: delivers what is there, then `quiet`. */
void engine_finish_output(struct engine_job *j, int rank);
/* Asks where the ranks on other nodes stand: `standing` follows for each that runs, and once more
 * before the end of each that notes its collectives. */
void engine_request_status(struct engine_job *j);
/* Asks for the stack of a rank on another node: `stack` follows, within CALL_STACKS_LIMIT_MS and
 * the way to it and back, or never where the rank has ended. */
void engine_request_stack(struct engine_job *j, int rank);
/* Where the rank's collectives are, as far as it runs, or ran, on this machine; else all zeroes. */
void engine_last_collective(const struct engine_job *j, int rank, struct collective_position *out);
/* An answer to `pmi`; nothing (`len` 0) says that none follows. */
void engine_pmi_reply(struct engine_job *j, int rank, const char *text, size_t len);
/* SIGKILL to everything that the job has or left; `cleared` follows. */
void engine_kill_tree(struct engine_job *j);

/* ---- for the engines themselves ---------------------------------------------------------- */

/* What an engine does, as above. A job of it starts with a pointer to this. */
struct engine_ops {
    void (*free)(struct engine_job *j);
    void (*signal)(struct engine_job *j, int rank, int sig);
    bool (*ask_stop)(struct engine_job *j);
    void (*resume)(struct engine_job *j);
    void (*finish_output)(struct engine_job *j, int rank);
    void (*look)(struct engine_job *j);
    void (*clear)(struct engine_job *j);
    void (*notes)(const struct engine_job *j, int rank,
                  struct collective_position *out);    /* or NULL */
    void (*ask_stack)(struct engine_job *j, int rank); /* NULL: no rank is on another node */
    void (*pmi)(struct engine_job *j, int rank, const char *text, size_t len); /* or NULL */
};

struct engine_job {
    const struct engine_ops *ops;
};

/* An event: the rank has asked for further ranks, and was refused. Says so; needs no `arg`. */
void engine_warn_spawn(void *arg, int rank);
/* DIR/rank.N/stdout (or stderr) for writing; `*fd` stays -1 where `dir` is NULL. */
int engine_open_file(int *fd, const char *dir, int rank, const char *stream, struct err *e);

/* Ranks on this machine, whatever the plan's engine is. On failure nothing runs, here and below. */
int engine_local_start(struct engine_job **out, struct engine *en,
                       const struct engine_start_opts *o, const struct engine_events *ev, void *arg,
                       struct err *e);
/* Ranks wherever the plan says. `spec` is needed until `cleared`.
 *   -ENOENT  mpirun or srun is not installed */
int engine_remote_start(struct engine_job **out, struct engine *en,
                        const struct engine_start_opts *o, const struct engine_events *ev,
                        void *arg, struct err *e);
/* As launch_join_ticket(). */
char *engine_remote_join_ticket(const struct engine_job *j, const char **token);

#endif
