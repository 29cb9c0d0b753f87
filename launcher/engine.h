/* engine - starts the ranks that a plan names, carries their output, and tells how they end. What
 * that means for the job is launch.c's matter.
 *
 * This is the local one: every rank on this machine, a child of the guardian. */
#ifndef DROVER_ENGINE_H
#define DROVER_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/guardian.h"
#include "launcher/launch.h"
#include "launcher/plan.h"
#include "launcher/topo.h"

struct engine;

/* Borrows all three; one engine for each guardian. */
int engine_open(struct engine **out, uv_loop_t *loop, struct guardian *g, const struct topo *t,
                struct err *e);
/* Only with no job left. Its handles close on the loop's next turn. */
void engine_close(struct engine *en);
AUTO_DEFINE(engine, struct engine *, engine_close)

struct engine_job;

/* All come from the loop. */
struct engine_events {
    void (*started)(void *arg, int rank, pid_t pid);
    /* `step` as guardian_events has it. No `exited` follows. */
    void (*not_started)(void *arg, int rank, int error, const char *step);
    void (*exited)(void *arg, int rank, int wait_status);
    /* The rank called MPI_Abort(code). */
    void (*aborted)(void *arg, int rank, int code);
    /* As launch_events has it; false asks for a pause of the whole job's output. */
    bool (*line)(void *arg, int rank, enum launch_stream from, const char *text, size_t len);
    /* Both streams of the rank have ended. Not for one that was not started. */
    void (*quiet)(void *arg, int rank);
    void (*report)(void *arg, int rank, const char *json, size_t len);
    /* The answer to engine_clear(). */
    void (*cleared)(void *arg);
    /* As launch_events has it. */
    void (*begun)(void *arg, int rank, enum launch_stream from, const char *text, size_t len);
};

struct engine_order {
    const struct plan *plan; /* must outlive the job; the rest is needed only during the call */
    const struct launch_spec *spec;
    char *const *base_env;
    int master_port;
};

/* On failure nothing runs. */
int engine_start(struct engine_job **out, struct engine *en, const struct engine_order *o,
                 const struct engine_events *ev, void *arg, struct err *e);
/* After `cleared`, or in it. No event follows. */
void engine_free(struct engine_job *j);

/* To the rank's process group; rank -1: to every rank's. */
void engine_signal(struct engine_job *j, int rank, int sig);
/* Asks the ranks that have used their report channel to stop; false where none has. */
bool engine_ask_stop(struct engine_job *j);
void engine_resume(struct engine_job *j);
/* The rank has ended but others hold its output open: delivers what is there, then `quiet`. */
void engine_finish_output(struct engine_job *j, int rank);
/* SIGKILL to everything that the job has or left; `cleared` follows. */
void engine_clear(struct engine_job *j);

#endif
