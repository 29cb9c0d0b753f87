/* coordinator_internal - the state of a coordinator, and what its files share. */
#pragma once

#include "common/stop_signals.h"
#include "hpo/coordinator/commit_batch.h"
#include "hpo/coordinator/coordinator.h"
#include "hpo/coordinator/local_worker.h"
#include "hpo/coordinator/message_dedup.h"
#include "hpo/coordinator/worker_roster.h"
#include "hpo/transport/transport_server.h"

enum coordinator_phase {
    COORDINATOR_SERVES,
    COORDINATOR_RELEASES, /* the sweep is over: workers were told, and their goodbye is awaited */
    COORDINATOR_LATE,     /* they had enough time: only processes that were started here count */
};

struct coordinator {
    const struct coordinator_opts *opts;
    const struct coordinator_events *ev;
    void *arg;
    uv_loop_t loop;
    bool loop_open;
    struct transport_server *server;
    char *endpoint, *lock, *leftovers, *log;
    char *tcp_endpoint; /* for workers of other machines; NULL: none */
    uint64_t ticked_ms, started_ms;
    bool await_shown, local_failed;
    struct worker_roster roster;
    struct local_worker_opts local_opts;
    struct local_worker *local;
    struct remote_workers *remote; /* NULL: none */
    enum coordinator_phase phase;
    int releasing; /* of the two, once the sweep is over */
    struct scheduler *sched;
    struct scheduler_out out;
    struct message_dedup dedup;
    struct commit_batch batch;
    uv_timer_t deadline, tick, commands, release, gather;
    struct stop_signals signals;
    char *end_reason;  /* NULL: the sweep is not over */
    int signal;        /* that stopped it; 0: none */
    int64_t offset_ms; /* from CLOCK_BOOTTIME to the sweep's time */
    struct err error;  /* it cannot continue */
    struct coordinator_totals totals;
};

/* ---- coordinator.c -------------------------------------------------------------------------- */

/* Ends the coordinator: otherwise the scheduler and the store would diverge. `arg` is the
 * coordinator. */
void coordinator_fail(void *arg, const struct err *e);
/* Passes an event to the scheduler; its records and actions join this batch. An event that has no
 * meaning is logged. `seq`: of the worker's message. */
void coordinator_step(struct coordinator *c, const struct scheduler_event *ev, int64_t seq);
void coordinator_finish_batch(struct coordinator *c);
/* Ends the loop if the sweep is over and all workers have left, or were given enough time. A worker
 * may still wait for the acknowledgement of a trial that runs elsewhere now. */
void coordinator_stop_if_alone(struct coordinator *c);
void coordinator_on_gathered(uv_timer_t *t);

/* ---- coordinator_messages.c ----------------------------------------------------------------- */

/* Events of the server; `arg` is the coordinator. */
void coordinator_on_message(void *arg, const char *worker, const struct wire_msg *m);
void coordinator_on_batch_end(void *arg);
/* Requeues the trials of a worker that is lost, or has ended without a goodbye. */
void coordinator_lose(struct coordinator *c, const char *worker);
/* Reads the messages that worker `id` could not deliver before it exited. */
void coordinator_read_leftovers(struct coordinator *c, const char *id);
