/* coordinator - runs a sweep: passes the messages of workers to the scheduler, stores its records,
 * then performs its actions. One transaction per turn of the loop. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/coordinator/remote_workers.h"
#include "hpo/coordinator/run_message.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/spec/spec.h"
#include "hpo/store/sweep_dir.h"
#include "hpo/transport/listen_endpoint.h"

struct coordinator;

struct coordinator_opts {
    const struct spec *spec;
    const struct sweep_dir *dir;               /* opened with the lock */
    struct run_message_opts run_message;       /* for the same sweep */
    int slots;                                 /* of the worker on this host; 0: no worker */
    char *const *worker_args;                  /* its further options; NULL: none */
    struct listen_endpoint_opts listen;        /* for workers of other machines */
    struct remote_workers_opts remote_workers; /* that it starts; without hosts: none */
};

/* Called after the commit. */
struct coordinator_events {
    void (*stored)(void *arg, const struct scheduler *s, enum scheduler_record_kind kind,
                   int trial);
    /* A batch was committed: something may have changed. At least once per second. */
    void (*changed)(void *arg, const struct scheduler *s);
    /* A signal asks for the end; again: at once. */
    void (*interrupted)(void *arg, bool again);
    /* A line for the user: a worker that cannot run trials, or what the sweep waits for. */
    void (*notice)(void *arg, const char *text);
};

/* Replays the store and listens. Borrows the options.
 *   -EBADMSG, -EINVAL  the store is damaged
 *   others             it cannot listen */
int coordinator_open(struct coordinator **out, const struct coordinator_opts *opts, struct err *e);
void coordinator_close(struct coordinator *c);
AUTO_DEFINE(coordinator, struct coordinator *, coordinator_close)

struct coordinator_totals { /* since coordinator_open() */
    int64_t commits;        /* transactions with records */
    int workers_lost;       /* that ended or fell silent without a goodbye */
};

struct coordinator_view { /* borrowed until coordinator_close() */
    uv_loop_t *loop;      /* handles on it must be closed before coordinator_close() */
    const struct scheduler *sched;
    const struct peer_table *workers;
    const struct coordinator_totals *totals;
    const char *endpoint; /* for workers of other machines; NULL: it does not listen for them */
};
struct coordinator_view coordinator_view(struct coordinator *c);

/* Runs until the sweep is over or a signal stops it. Borrows the events until coordinator_close(),
 * which waits for the workers that it has started and may call them. Returns 0, or the number of
 * the signal that stopped it; running trials are requeued then. negative errno  it cannot continue:
 * the disk is full, no worker can be kept running, or (-ENODEV) none can start a trial */
int coordinator_run(struct coordinator *c, const struct coordinator_events *ev, void *arg,
                    struct err *e);

/* Stops the sweep as SIGTERM does: coordinator_run() returns SIGTERM when the trials have stopped.
 * No effect if it stops already. For events of the loop. `reason` is stored for readers. */
void coordinator_interrupt(struct coordinator *c, const char *reason);

/* Why the sweep is over, in words; NULL: it is not over. */
const char *coordinator_end_reason(const struct coordinator *c);
