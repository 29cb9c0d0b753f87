/* fleet - the workers on other nodes that this sweep starts itself: a job of one rank on each, as
 * `drover run` starts one, by mpirun or srun.
 *
 * One that ends is started again, later each time; after WORKER_STARTS_MAX starts that came to
 * nothing its node is given up, and the sweep goes on with the others. They end when they are told
 * that the sweep is over, and with the engine that started them: none outlives this process. */
#ifndef DROVER_REMOTE_WORKERS_H
#define DROVER_REMOTE_WORKERS_H

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/engine/launch.h"
#include "launcher/plan/hosts.h"

struct remote_workers;

struct remote_workers_opts {
    struct guardian *guardian;      /* started before there was a thread */
    const struct launch_spec *spec; /* who starts them: engine, engine_args, env */
    const struct hosts *hosts;      /* those that are `here` have no worker of the fleet's */
    int ranks;                      /* of a trial */
    bool limit;                     /* a node's slots say how many ranks it takes */
};

struct remote_workers_events {
    /* The worker of this id has ended, and what it ran with it. */
    void (*gone)(void *arg, const char *id);
    /* No node is left that could have one. Not after remote_workers_release(). */
    void (*failed)(void *arg, const struct err *e);
    /* All have ended after remote_workers_release(). */
    void (*released)(void *arg);
};

/* How many trials a host takes at once by its slots; 0: as many as fit. */
int remote_workers_slots(const struct remote_workers_opts *c, const struct host *h);

/* Borrows the configuration, the events and `dir`, the sweep's directory: it has the worker.key
 * that they get by their environment, and what they write, in worker.NODE.log. Starts nothing. */
int remote_workers_open(struct remote_workers **out, uv_loop_t *loop,
                        const struct remote_workers_opts *c, const char *dir,
                        const struct remote_workers_events *ev, void *arg, struct err *e);
/* Ends those that are left, in good order; turns the loop until they have ended. */
void remote_workers_close(struct remote_workers *f);
AUTO_DEFINE(remote_workers, struct remote_workers *, remote_workers_close)

void remote_workers_start(struct remote_workers *f);
/* Workers were told to end: none is started again. `released` follows, at once where none runs. */
void remote_workers_release(struct remote_workers *f);
/* SIGKILL to all. */
void remote_workers_kill(struct remote_workers *f);

#endif
