/* scheduler_internal - types and functions that the files of the scheduler share. */
#ifndef DROVER_SCHEDULER_INTERNAL_H
#define DROVER_SCHEDULER_INTERNAL_H

#include "hpo/samplers/sampler.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/scheduler/sweep_state.h"
#include "hpo/stoppers/stopper.h"

struct worker {
    char *id, *node;
    int slots;
    int busy;              /* number of its active leases: follows from the records */
    bool connected;        /* has sent hello, and is not lost */
    bool leaving;          /* accepts no more trials */
    bool unresponsive;     /* did not reserve a slot in time; until its next message */
    bool considered;       /* excluded from the present search for a gang */
    int64_t lost_ms;       /* when it is lost without a hello; INT64_MAX: it is not awaited */
    size_t number;         /* index in s->workers */
    size_t capacity_index; /* index in s->by_capacity */
};

/* A trial over several nodes of which not all workers have reserved their slot: it does not run
 * yet. This is not a record: after a restart the worker that should run the trial does not list
 * it. */
struct scheduler_gang {
    int trial;
    int64_t due_ms;
    json_t *reserved; /* worker -> RESERVED's data */
};

struct scheduler {
    const struct spec *spec;
    struct sweep_state st;
    struct sampler *sampler;
    struct sampler_objective objectives[SPEC_METRICS_MAX]; /* of the sampler's task */
    struct stopper *stopper;                               /* NULL: none */

    struct worker **workers;
    struct worker **by_capacity; /* the same as a heap, the most free slots on top */
    size_t worker_count, worker_cap;
    json_t *worker_index; /* id -> index */

    struct scheduler_gang *gangs; /* pending ones */
    size_t gang_count;
    json_t *gang_nodes; /* of the last RUN of a gang */

    double points;       /* number of trials until every point is tried; INFINITY: not countable */
    json_t *next_params; /* of trial number st.count; NULL: not proposed yet, or exhausted */
    json_t *model_state; /* the sampler's, from the last CREATED; NULL: none */
    bool exhausted;
    bool draining;
    int64_t due_ms; /* scheduler_deadline(); updated at the end of a step if it is stale */
    bool due_stale;
    enum stop_reason end_reason; /* set once the sweep has ended */
    int replayed_failures;
};

/* ---- scheduler.c -------------------------------------------------------------------------------
 */

struct event_context { /* an event that is being handled */
    struct scheduler *s;
    struct scheduler_out *out;
    int64_t now_ms;
};

/* Applies a record and appends it to the output. Takes ownership of `data`. */
void scheduler_emit_record(struct event_context *ctx, enum scheduler_record_kind kind,
                           const struct trial *t, int64_t lease, json_t *data);
void scheduler_emit_action(struct event_context *ctx, enum scheduler_action_kind kind,
                           const char *worker, int trial, int64_t lease, const char *reason);

/* Returns the stopper's verdict after a report of trial `t`. */
enum stopper_verdict scheduler_judge_report(const struct scheduler *s, const struct trial *t);

/* Returns the worker of that id, or NULL. */
struct worker *scheduler_find_worker(const struct scheduler *s, const char *id);
/* The same; adds the worker if there is none. */
struct worker *scheduler_add_worker(struct scheduler *s, const char *id);

/* Returns why the sweep ends in the present state. NONE: it does not, or trials are active. */
enum stop_reason scheduler_done_reason(struct scheduler *s);

/* Returns the number of trials that the sweep will have; -1: unlimited. */
int scheduler_trials_wanted(const struct scheduler *s);
/* Stops waiting for the worker's hello: it has connected, or is lost. */
void scheduler_worker_settled(struct scheduler *s, struct worker *w);

/* Creates the next trial if scheduler_wants_prefetch(). */
void scheduler_prefetch(struct event_context *ctx);

/* Returns why no new trial starts although points are left: stopped, target reached, or gave up.
 * NONE: one may start. */
enum stop_reason scheduler_closed_reason(const struct scheduler *s);

/* ---- worker_capacity.c -------------------------------------------------------------------------
 */

/* Must be called if a worker is new, or if its number of free slots may have changed. */
void worker_capacity_update(struct scheduler *s, struct worker *w);
/* Finds the `n` workers with the most free slots, each on another node, so that trials are spread.
 * False: there are fewer. */
bool worker_capacity_largest(struct scheduler *s, struct worker **out, int n);

/* ---- scheduler_gang.c --------------------------------------------------------------------------
 */

/* Whether the worker runs the trial, or reserves a slot for it. */
bool scheduler_gang_has_worker(const struct worker *w, const struct trial *t);
/* Asks the other workers of a trial that was leased to a gang to reserve their slots. */
void scheduler_gang_begin(struct event_context *ctx, const struct trial *t);
/* Whether a worker of the gang has not reserved its slot yet. */
bool scheduler_gang_is_pending(const struct scheduler *s, const struct trial *t);
/* Releases the slots of a trial that is no longer active. */
void scheduler_gang_end(struct event_context *ctx, const struct trial *t);
void scheduler_gang_reserved(struct event_context *ctx, const struct scheduler_event *ev);
/* Returns the first trial whose gang is overdue, and in *awaited which workers did not reserve
 * their slot, as text that the caller frees. NULL: there is none. */
struct trial *scheduler_gang_overdue(struct event_context *ctx, char **awaited);
/* The time at which the next gang is overdue; INT64_MAX: none is pending. */
int64_t scheduler_gang_deadline(const struct scheduler *s);
void scheduler_gangs_free(struct scheduler *s);

/* ---- scheduler_events.c ------------------------------------------------------------------------
 */

/* Ends a trial. Takes ownership of `error` (NULL: none). */
void scheduler_end_trial(struct event_context *ctx, const struct trial *t, enum trial_state state,
                         double seconds, char *error);

/* Tells every active trial to stop that was not told before. `again`: tells the others, too. */
void scheduler_stop_all(struct event_context *ctx, enum stop_reason reason, bool again);

/* Handles an event.
 *   -EINVAL  the event's data is malformed; nothing has happened */
int scheduler_events_handle(struct event_context *ctx, const struct scheduler_event *ev,
                            struct err *e);

/* ---- scheduler_commands.c ----------------------------------------------------------------------
 */

/* Handles a command of the user.
 *   -EINVAL  the command has no meaning, or not now; nothing has happened */
int scheduler_commands_handle(struct event_context *ctx, const json_t *data, struct err *e);

#endif
