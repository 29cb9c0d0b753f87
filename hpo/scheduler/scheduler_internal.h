/* sched_in - what the files of the scheduler share; nobody else includes it. */
#ifndef DROVER_SCHEDULER_INTERNAL_H
#define DROVER_SCHEDULER_INTERNAL_H

#include "hpo/samplers/sampler.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/scheduler/sweep_state.h"
#include "hpo/stoppers/stopper.h"

struct worker {
    char *id, *node;
    int places;
    int busy;          /* leases that are out: follows from the records */
    bool connected;    /* said hello, and is not lost */
    bool leaving;      /* takes no more */
    bool unresponsive; /* did not answer when it was asked for a place; until it says a word */
    bool considered;   /* is looked at no more in this search for a set */
    int64_t lost_ms; /* when it counts as lost unless it says hello; INT64_MAX: it is not awaited */
    size_t number;   /* in s->workers */
    size_t roomy_at; /* in s->roomy */
};

/* A trial over several nodes of which not all have reserved their places: nobody runs it yet. It is
 * no fact: after a restart the worker that was to run it says that it does not. */
struct scheduler_gang {
    int trial;
    int64_t due_ms;
    json_t *held; /* worker -> HELD's data */
};

struct scheduler {
    const struct spec *spec;
    struct sweep_state st;
    struct sampler *sampler;
    struct sampler_objective objectives[SPEC_METRICS_MAX]; /* of the sampler's task */
    struct stopper *stopper;                               /* NULL: none */

    struct worker **workers;
    struct worker *
        *by_capacity; /* the same ones as a heap, the one with the most free places on top */
    size_t worker_count, worker_cap;
    json_t *worker_index; /* id -> index */

    struct scheduler_gang *sets;
    size_t set_count;
    json_t *others; /* of the last RUN over several nodes */

    double points;       /* trials until every point is tried; INFINITY: not countable */
    json_t *next_params; /* of trial number st.count; NULL: not asked yet, or exhausted */
    json_t *model_state; /* what the last trial's CREATED kept of the sampler; NULL: nothing */
    bool exhausted;
    bool draining;
    int64_t due_ms; /* scheduler_deadline(); found anew at the end of a step where it is stale */
    bool due_stale;
    enum stop_reason end_reason; /* set once the sweep has ended */
    int replayed_failures;
};

/* ---- sched.c: what the event handlers do -------------------------------------------------------
 */

struct event_context { /* an event that is being handled */
    struct scheduler *s;
    struct scheduler_out *out;
    int64_t now_ms;
};

/* Makes a fact: applies and appends a record. Takes over `data`. */
void scheduler_emit_record(struct event_context *st, enum scheduler_record_kind kind,
                           const struct trial *t, int64_t lease, json_t *data);
void scheduler_emit_action(struct event_context *st, enum scheduler_action_kind kind,
                           const char *worker, int trial, int64_t lease, const char *reason);

/* What the stopper says after a report of trial `t`, which is then applied. */
enum stopper_verdict scheduler_judge_report(const struct scheduler *s, const struct trial *t);

/* The worker of that id, or NULL. */
struct worker *scheduler_find_worker(const struct scheduler *s, const char *id);
/* The same; a new one where there is none. */
struct worker *scheduler_add_worker(struct scheduler *s, const char *id);

/* Why the sweep is over as things are, or NULL: it is not, or trials are still out. */
enum stop_reason scheduler_done_reason(struct scheduler *s);

/* How many trials there are to be in all; -1: unlimited. */
int scheduler_trials_wanted(const struct scheduler *s);
/* A worker is not awaited any more: it is here, or lost. */
void scheduler_worker_settled(struct scheduler *s, struct worker *w);

/* Makes the next trial, if it is wanted now. */
void scheduler_prefetch(struct event_context *st);

/* Why no new trial starts although there are points left, or NULL: stopped, target, or given up. */
enum stop_reason scheduler_closed_reason(const struct scheduler *s);

/* ---- sched_room.c ------------------------------------------------------------------------------
 */

/* A worker is new, or its free places may be more or fewer than they were. */
void worker_capacity_update(struct scheduler *s, struct worker *w);
/* The `n` with the most free places, so that trials spread, each on another node; false: there are
 * not so many. */
bool worker_capacity_largest(struct scheduler *s, struct worker **out, int n);

/* ---- sched_set.c -------------------------------------------------------------------------------
 */

/* Whether it runs the trial, or holds a place for it. */
bool scheduler_gang_has_worker(const struct worker *w, const struct trial *t);
/* The trial was leased to several workers: they reserve their places. */
void scheduler_gang_begin(struct event_context *st, const struct trial *t);
/* Whether some of them have not done so. */
bool scheduler_gang_is_pending(const struct scheduler *s, const struct trial *t);
/* The trial is not out any more: its places are free. */
void scheduler_gang_end(struct event_context *st, const struct trial *t);
void scheduler_gang_reserved(struct event_context *st, const struct scheduler_event *ev);
/* The first set that is late, and in words who is awaited (to be freed); NULL: none is. */
struct trial *scheduler_gang_overdue(struct event_context *st, char **awaited);
/* When the next is; INT64_MAX: none is awaited. */
int64_t scheduler_gang_deadline(const struct scheduler *s);
void scheduler_gangs_free(struct scheduler *s);

/* ---- sched_event.c -----------------------------------------------------------------------------
 */

/* A trial has come to an end. Takes over `error` (NULL: none). */
void scheduler_end_trial(struct event_context *st, const struct trial *t, enum trial_state state,
                         double seconds, char *error);

/* For each trial that is out: tells it to stop, with that reason, unless it was told so before.
 * `again`: tells those once more. */
void scheduler_stop_all(struct event_context *st, enum stop_reason reason, bool again);

/* -EINVAL: the event's data is malformed; nothing has happened. */
int scheduler_events_handle(struct event_context *st, const struct scheduler_event *ev,
                            struct err *e);

/* ---- sched_ask.c -------------------------------------------------------------------------------
 */

/* -EINVAL: it makes no sense, now or ever; nothing has happened. */
int scheduler_commands_handle(struct event_context *st, const json_t *data, struct err *e);

#endif
