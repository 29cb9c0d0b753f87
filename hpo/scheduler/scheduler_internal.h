/* scheduler_internal - types and functions that the files of the scheduler share. */
#pragma once

#include "hpo/samplers/sampler.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/scheduler/sweep_state.h"
#include "hpo/scheduler/worker_health.h"
#include "hpo/stoppers/stopper.h"

enum worker_link {
    WORKER_LINK_ABSENT,       /* has sent no hello yet, or is lost */
    WORKER_LINK_READY,        /* gets trials if its health allows it */
    WORKER_LINK_UNRESPONSIVE, /* did not reserve a slot in time: gets no trial */
    WORKER_LINK_LEAVING       /* accepts no more trials until its next hello */
};

enum worker_link_event {
    WORKER_LINK_EV_HELLO,
    WORKER_LINK_EV_LATE,     /* it did not reserve a slot in time */
    WORKER_LINK_EV_ANSWERED, /* SLOTS or RESERVED */
    WORKER_LINK_EV_GOES,     /* LEAVING */
    WORKER_LINK_EV_LOST
};

struct worker {
    char *id, *node;
    int slots;
    int busy; /* number of its active leases and reservations; the records determine it */
    enum worker_link link;
    bool considered;             /* already considered in the present search for a gang */
    struct worker_health health; /* not in the records: a new coordinator tries again */
    /* time at which it is lost if it sends no hello; INT64_MAX: no hello is awaited */
    int64_t lost_ms;
    size_t number;         /* index in s->workers */
    size_t capacity_index; /* index in s->by_capacity */
};

/* A pending gang: not all its workers have reserved their slots, so its trial is not running yet.
 * There is no record of this. After a restart the lease is lost, since the worker that should run
 * the trial does not list it in its hello. */
struct scheduler_gang {
    int trial;
    int64_t due_ms;
    json_t *reserved; /* maps a worker's id to RESERVED's data */
};

struct scheduler {
    const struct spec *spec;
    struct sweep_state st;
    struct sampler *sampler;
    /* the objectives of the sampler's task */
    struct sampler_objective objectives[SPEC_METRICS_MAX];
    struct stopper *stopper; /* NULL: none */

    struct worker **workers;
    /* the same workers as a heap; the worker with the most free slots is on top */
    struct worker **by_capacity;
    size_t worker_count;
    json_t *worker_index; /* maps a worker's id to its index */

    struct scheduler_gang *gangs; /* the pending gangs */
    size_t gang_count;
    json_t *gang_nodes; /* gang_nodes of the last RUN with a gang */

    double points; /* number of trials after which every point is tried; INFINITY: uncountable */
    /* parameters of trial number st.count; NULL: not proposed yet, or exhausted */
    json_t *next_params;
    json_t *model_state; /* the last one that a CREATED record has; NULL: none */
    bool exhausted;
    bool draining;
    bool expects_workers;
    int64_t due_ms; /* scheduler_deadline(); updated at the end of a step if due_stale */
    bool due_stale;
    enum stop_reason end_reason; /* NONE until the sweep has ended */
    char *end_text;              /* with NO_WORKER: the cause */
    int replayed_failures;
    struct {
        bool beyond, again, unbounded, step, unnamed; /* as the texts of scheduler_reports.c */
    } said;
    char *notice; /* the last one; NULL: none */
};

/* ---- scheduler.c ---------------------------------------------------------------------------- */

struct event_context { /* an event that is being handled */
    struct scheduler *s;
    struct scheduler_out *out;
    int64_t now_ms;
};

/* Applies a record and appends it to the output. Takes the ownership of `data`. `t` is NULL for
 * CREATED and COMMAND. */
void scheduler_emit_record(struct event_context *ctx, enum scheduler_record_kind kind,
                           const struct trial *t, int64_t lease, json_t *data);
void scheduler_emit_action(struct event_context *ctx, enum scheduler_action_kind kind,
                           const char *worker, int trial, int64_t lease, const char *reason);

/* Returns the stopper's verdict after a report of trial `t`. */
enum stopper_verdict scheduler_judge_report(const struct scheduler *s, const struct trial *t);

/* Applies an event of the worker's connection, and updates its place in the heap. */
void scheduler_worker_step(struct scheduler *s, struct worker *w, enum worker_link_event event);
/* Returns the worker with this id, or NULL if it is unknown. `id` may be NULL. */
struct worker *scheduler_find_worker(const struct scheduler *s, const char *id);
/* Returns the worker with this id; adds it if it is unknown. */
struct worker *scheduler_add_worker(struct scheduler *s, const char *id);

/* Returns the reason why the sweep ends in the present state, or NONE if it does not end or trials
 * are active. */
enum stop_reason scheduler_done_reason(struct scheduler *s);

/* Returns the number of trials that the sweep will have, or -1 if it is unlimited. */
int scheduler_trials_wanted(const struct scheduler *s);
/* Stops waiting for the worker's hello: it has connected, or is lost. */
void scheduler_worker_settled(struct scheduler *s, struct worker *w);

/* Creates the next trial if scheduler_wants_prefetch(). */
void scheduler_prefetch(struct event_context *ctx);

/* Returns the reason why no new trial starts although points are left: stopped, target reached, or
 * gave up. Returns NONE if a trial may start. */
enum stop_reason scheduler_closed_reason(const struct scheduler *s);

/* ---- worker_capacity.c ---------------------------------------------------------------------- */

/* Must be called if a worker is new, or if its number of free slots may have changed. */
void worker_capacity_update(struct scheduler *s, struct worker *w);
/* Sets out[0 … n - 1] to the n workers with the most free slots, all on different nodes. Returns
 * false if there are fewer than n. Taking the most free slots spreads trials over the workers. */
bool worker_capacity_largest(struct scheduler *s, struct worker **out, int n);

/* ---- scheduler_gang.c ----------------------------------------------------------------------- */

/* Returns true if the worker runs the trial or reserves a slot for it. */
bool scheduler_gang_has_worker(const struct worker *w, const struct trial *t);
/* Tells the other workers of a gang to reserve slots for the trial, which has just been leased. */
void scheduler_gang_begin(struct event_context *ctx, const struct trial *t);
/* Returns true if a worker of the trial's gang has not reserved its slot yet. */
bool scheduler_gang_is_pending(const struct scheduler *s, const struct trial *t);
/* Releases the slots of a trial that is no longer active. */
void scheduler_gang_end(struct event_context *ctx, const struct trial *t);
void scheduler_gang_reserved(struct event_context *ctx, const struct scheduler_event *ev);
/* Returns the first trial whose gang is overdue, or NULL if there is none. Sets `*awaited` to a
 * text with the workers that did not reserve their slot; the caller frees it. */
struct trial *scheduler_gang_overdue(struct event_context *ctx, char **awaited);
/* Returns the time at which the next gang is overdue, or INT64_MAX if none is pending. */
int64_t scheduler_gang_deadline(const struct scheduler *s);
void scheduler_gangs_free(struct scheduler *s);

/* ---- scheduler_health.c --------------------------------------------------------------------- */

/* The trial ended because of a worker: `node` 0 is the one that runs it, 1 … the others of its
 * gang. */
void scheduler_health_fault(struct event_context *ctx, const struct trial *t, int node,
                            const char *cause);
/* The trial was started, and its end is not a fault of its workers. */
void scheduler_health_success(struct event_context *ctx, const struct trial *t);
/* The worker has sent a hello. */
void scheduler_health_reconnected(struct event_context *ctx, struct worker *w);
/* Handles the result of a self-test.
 *   -EINVAL  the event's data is malformed */
int scheduler_health_tested(struct event_context *ctx, const struct scheduler_event *ev,
                            struct err *e);
/* Ends backoffs and requests self-tests that are due. */
void scheduler_health_tick(struct event_context *ctx);
/* Returns when the worker's backoff ends or its self-test is due; INT64_MAX: neither. */
int64_t scheduler_health_deadline(const struct worker *w);
/* If too few workers are left that can start a trial, returns a text with the cause, which the
 * scheduler owns; else NULL. */
const char *scheduler_health_none_left(struct scheduler *s);

/* ---- scheduler_events.c --------------------------------------------------------------------- */

/* Ends a trial in the final state `state`. Takes the ownership of `error` (NULL: none). */
void scheduler_end_trial(struct event_context *ctx, const struct trial *t, enum trial_state state,
                         double seconds, char *error);

/* Tells all active trials to stop that were not told before. `again`: tells the others again. */
void scheduler_stop_all(struct event_context *ctx, enum stop_reason reason, bool again);

/* Ends a trial that has not ended as cancelled, by the user. One that runs is told to stop first;
 * `now`: it is killed. */
void scheduler_cancel_trial(struct event_context *ctx, struct trial *t, bool now);

/* Handles an event.
 *   -EINVAL  the event's data is malformed, or the command is not possible; nothing has changed */
int scheduler_events_handle(struct event_context *ctx, const struct scheduler_event *ev,
                            struct err *e);

/* ---- scheduler_reports.c -------------------------------------------------------------------- */

#define STEPS 0x1p63 /* a step is an integer of 64 bits for those who read the curves */

/* Emits SCHEDULER_ACT_NOTICE if a part of the report is dropped, once for each kind of part.
 * Returns true if it does. */
bool scheduler_reports_dropped(struct event_context *ctx, const struct trial *t,
                               const json_t *data);

/* Before a report becomes a record: emits SCHEDULER_ACT_NOTICE if its steps do not mean what the
 * user may expect, once for each meaning. */
void scheduler_reports_check(struct event_context *ctx, const struct trial *t, double step,
                             const json_t *values);
/* Before a trial with a value ends: the same, if it has not reported the metric of an outcome
 * constraint, once. */
void scheduler_reports_end(struct event_context *ctx, const struct trial *t);

/* ---- scheduler_commands.c ------------------------------------------------------------------- */

/* Handles a command of the user.
 *   -EINVAL  the command is unknown, malformed or not possible now; nothing has changed */
int scheduler_commands_handle(struct event_context *ctx, const json_t *data, struct err *e);
