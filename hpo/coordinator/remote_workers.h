/* remote_workers - the workers on other nodes that a sweep starts itself: per node a job of one
 * rank, which mpirun or srun starts as for `drover run`.
 *
 * A worker that exits is started again, with a longer delay each time. After WORKER_STARTS_MAX
 * starts without success its node is given up, and the sweep continues with the others. The workers
 * end when the sweep is over, or with the engine that started them: none outlives this process. */
#pragma once

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/transport/peer_table.h"
#include "launcher/engine/launch.h"
#include "launcher/plan/hosts.h"

struct remote_workers;

struct remote_workers_opts {
    struct guardian *guardian;      /* started before this process had threads */
    const struct launch_spec *spec; /* how workers are started: engine, engine_args, env */
    const struct hosts *hosts;      /* a host that is `here` gets no worker */
    int ranks;                      /* per node of a trial */
    bool limit;                     /* the slots of a host limit its ranks */
    char *const *args;              /* a strv: further options of the workers; NULL: none */
};

struct remote_workers_events {
    /* The worker of this id has exited, and its trials with it. */
    void (*exited)(void *arg, const char *id);
    /* Every node was given up. Not after remote_workers_release(). */
    void (*failed)(void *arg, const struct err *e);
    /* All workers have exited after remote_workers_release(). */
    void (*released)(void *arg);
};

/* How many trials a host runs at once by its slots; 0: as many as fit. */
int remote_workers_slots(const struct remote_workers_opts *opts, const struct host *h);

/* Borrows the options, the events and `dir`, the sweep's directory. The workers get its worker.key
 * in their environment, and their output is written to worker.NODE.log in it. Starts nothing. */
int remote_workers_open(struct remote_workers **out, uv_loop_t *loop,
                        const struct remote_workers_opts *opts, const char *dir,
                        const struct remote_workers_events *ev, void *arg, struct err *e);
/* Stops the workers that run with their grace period, and runs the loop until they have exited. */
void remote_workers_close(struct remote_workers *w);
AUTO_DEFINE(remote_workers, struct remote_workers *, remote_workers_close)

void remote_workers_start(struct remote_workers *w);
/* Returns true if a node that is not given up has no worker among `peers`. */
bool remote_workers_are_awaited(const struct remote_workers *w, const struct peer_table *peers);
/* Workers were told to end and are not started again. `released` follows, at once if none runs. */
void remote_workers_release(struct remote_workers *w);
/* SIGKILL to all. */
void remote_workers_kill(struct remote_workers *w);
