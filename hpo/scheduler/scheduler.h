/* scheduler - decides for a sweep: events and the time go in, records and actions come out.
 *
 * A record is a fact. It is committed to the store before any action of the same step is carried
 * out, and replaying all records in their order (scheduler_replay) gives the same state. Actions
 * are effects. They are idempotent, follow from the state, and are not stored. One step:
 *
 *     scheduler_handle(s, &event, now_ms, &out);
 *     event_store_append(…); for all out.records, then event_store_commit(…);
 *     perform(…); for all out.actions
 *
 * An event that has no meaning in the present state (late, repeated, of an old lease) gives
 * neither. Pure: no I/O, no clock, no randomness except the sweep's seed. */
#ifndef DROVER_SCHEDULER_H
#define DROVER_SCHEDULER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/trial/trial.h"

struct scheduler;
struct spec; /* hpo/spec/spec.h: the sweep file */

enum scheduler_event_kind {
    SCHEDULER_EV_HELLO,    /* a worker has connected: worker, data */
    SCHEDULER_EV_SLOTS,    /* a worker's number of slots has changed: worker, data */
    SCHEDULER_EV_LOST,     /* a worker is lost: its process ended, or it is silent for lost_after */
    SCHEDULER_EV_LEAVING,  /* a worker accepts no more trials until its next hello */
    SCHEDULER_EV_RESERVED, /* a worker has reserved a slot: worker, lease, data */
    SCHEDULER_EV_REVOKED,  /* a worker needs a reserved slot back: worker, lease */
    SCHEDULER_EV_REPORT,   /* lease, data {"step":…, metrics…} */
    SCHEDULER_EV_DONE,     /* lease, data: how the job ended */
    SCHEDULER_EV_TICK,     /* time has passed */
    SCHEDULER_EV_DRAIN,    /* the coordinator ends: trials are stopped and wait again */
    SCHEDULER_EV_COMMAND,  /* a command of the user: data */
    SCHEDULER_EV_PREFETCH, /* creates the next trial if scheduler_wants_prefetch() */
};

/* HELLO's data: {"slots":4,"node":"c03","running":[lease,…]}. `running` lists every lease whose
 * DONE the coordinator has not confirmed. A listed lease that is not valid is answered with a STOP.
 * A lease that the coordinator has granted to this worker but that is not listed is lost.
 *
 * SLOTS' data: {"slots":3}. Running trials continue even if there are fewer slots now.
 *
 * REVOKED: the trial is stopped, and waits again like one that its worker has preempted.
 *
 * RESERVED's data describes the resources of the slot; it is passed on unchanged.
 *
 * LOST: the worker's leases are void, and the trials wait again. The worker gets no trial until its
 * next hello.
 *
 * REPORT's data: numbers as json_number() writes them; other values are dropped. Without "step" the
 * step is the number of reports of the metric under this lease. A worker that may send a message
 * twice therefore sends the step: a report that is already known gives nothing.
 *
 * DONE's data: {"status":0,"signal":0,"oom":false,"seconds":1.5,"error":"…"?,"preempted":bool?,
 * "stopped":bool?,"not_started":bool?}. "stopped":false says that the job ended by itself, so that
 * a STOP which crossed the message does not count. Without it, a trial that was told to stop has
 * stopped.
 *
 * Which end counts: the first of the trial's last lease. Between being lost and being leased again,
 * that lease's reports and its success (not its failure) still count; after that it is void.
 *
 * COMMAND's data: {"ask":"the command's id","verb":…}, and by the verb
 *   stop    "now":bool?     running trials are stopped (now: killed) and end as cancelled, and so
 *                           do waiting ones: the sweep has ended
 *   pause   "finish":bool?  nothing is started until `resume`; running trials are stopped and wait
 *                           again (finish: they run to their end)
 *   resume                  takes back `pause` and `stop`
 *   retry   "trials":[id,…], or "failed":true: all that failed, ran out of memory or are invalid.
 *                           They wait again, with all their retries
 *   add     "params":[set,…]: trials with these parameters; or "trials":N: N more than run_cap
 * `retry` and `add` take back a `stop`, and a target that was reached. A command whose id is known
 * gives nothing. -EINVAL with a hint: the command has no meaning now.
 *
 * A trial that was told to pause and has stopped, or whose worker is lost, is paused, and its slot
 * is free. It is leased again when its stopper resumes it. Trials that are paused when nothing else
 * is left to do end as pruned. */
struct scheduler_event {
    enum scheduler_event_kind kind;
    const char *worker; /* its id; NULL for TICK, DRAIN and COMMAND */
    int64_t lease;      /* 0: none */
    json_t *data;       /* borrowed; may be NULL if the event has none */
};

enum scheduler_record_kind {
    /* trial, data: {"params":{…},"learnt":…?} with the result of sampler_save(), or
     * {"params":{…},"added":true} of the command `add` */
    SCHEDULER_REC_CREATED,
    /* trial, lease, data: {"worker":…,"node":…,"with":[worker,…]?}: `worker` runs the trial, each
     * worker of "with" reserves a slot for it */
    SCHEDULER_REC_LEASED,
    /* trial, lease, data: {"step":…,"values":{…}} */
    SCHEDULER_REC_REPORT,
    /* trial, lease, data: {"why":"median"|"hyperband"|…|"timeout"|"drain"|"stop"|"pause"|
     * "preempted"}: the name of an early stopper, or a word of stop_reason.h */
    SCHEDULER_REC_STOPPING,
    /* trial, lease, data: {"why":"lost"|"preempted"|"drain"|"pause"|"failed","spent":bool,
     * "error":…?}; spent: it counts against the retries */
    SCHEDULER_REC_REQUEUED,
    /* trial, lease, data: {"state":"done",…,"value":number or null,"seconds":…,"error":…?,
     * "why":…?} */
    SCHEDULER_REC_ENDED,
    /* trial, lease, data: {"why":"curve"}: it was told to stop and will continue later */
    SCHEDULER_REC_PAUSING,
    /* trial, lease, data: {"seconds":…} */
    SCHEDULER_REC_PAUSED,
    /* of the sweep: trial -1, lease 0, data: that of SCHEDULER_EV_COMMAND */
    SCHEDULER_REC_COMMAND,
    /* trial, lease, data: {} */
    SCHEDULER_REC_RETRIED,
    SCHEDULER_REC_KINDS
};

struct scheduler_record {
    enum scheduler_record_kind kind;
    int64_t at_ms; /* wall clock, as given to scheduler_handle() */
    int trial;     /* 0, 1, …; -1: of the sweep as a whole */
    int64_t lease; /* 0: none. Leases are numbered over the whole sweep and never reused */
    json_t *data;  /* owned by the record */
};

enum scheduler_action_kind {
    SCHEDULER_ACT_RUN,     /* send trial `trial` under `lease` to `worker`: params */
    SCHEDULER_ACT_RESERVE, /* ask `worker` to reserve a slot for `lease`; a STOP releases it */
    SCHEDULER_ACT_STOP,    /* tell `worker` to stop `lease` */
    SCHEDULER_ACT_KILL,    /* tell `worker` to kill `lease` */
    SCHEDULER_ACT_END,     /* the sweep has ended. Once in a scheduler's life */
};

struct scheduler_action { /* borrows from the scheduler until the next step */
    enum scheduler_action_kind kind;
    const char *worker;
    int trial; /* -1: there was never such a lease */
    int64_t lease;
    json_t *params;
    /* RUN: {"node":…,"resources":RESERVED's data} of each other worker of the gang, in order; NULL:
     * the trial runs on one node */
    json_t *gang_nodes;
    /* STOP, KILL: the word of the stop reason, or why the lease is void. END: a sentence */
    const char *reason;
};

struct scheduler_out { /* the result of one step; scheduler_handle() clears it */
    struct scheduler_record *records;
    size_t record_count;
    struct scheduler_action *actions;
    size_t action_count;
};
void scheduler_out_free(struct scheduler_out *out);

/* Borrows the spec, which must outlive the scheduler. */
int scheduler_new(struct scheduler **out, const struct spec *spec, struct err *e);
void scheduler_free(struct scheduler *s);
AUTO_DEFINE(scheduler, struct scheduler *, scheduler_free)

/* Applies a stored record; in order, before the first step. Borrows r->data.
 *   -EINVAL  it contradicts the records before it: the store is damaged */
int scheduler_replay(struct scheduler *s, const struct scheduler_record *r, struct err *e);

/* Must be called after the last replay. Leases that were active when the coordinator ended stay
 * active until their worker's hello lists them, or `lost_after` has passed since now_ms. */
void scheduler_replayed(struct scheduler *s, int64_t now_ms);

/* Handles an event. `out` (zeroed before its first use) gets the records and actions. A caller that
 * cannot commit the records must free the scheduler and replay.
 *   -EINVAL  the event's data is malformed: nothing has happened, `out` is empty */
int scheduler_handle(struct scheduler *s, const struct scheduler_event *ev, int64_t now_ms,
                     struct scheduler_out *out, struct err *e);

/* Whether the next trial should be created before a slot is free, because the slot would be idle
 * while it is proposed. Then SCHEDULER_EV_PREFETCH must be handled before any other event (except
 * DRAIN), so that a proposal only depends on the order of the other events. The caller carries out
 * the actions of the last step first, since the proposal takes long. */
bool scheduler_wants_prefetch(const struct scheduler *s);

/* The time of the next TICK; INT64_MAX: none. */
int64_t scheduler_deadline(const struct scheduler *s);
bool scheduler_is_done(const struct scheduler *s);
/* Whether the user has paused the sweep; whether the user has stopped it. */
bool scheduler_is_paused(const struct scheduler *s);
bool scheduler_is_stopped(const struct scheduler *s);

/* Returns a trial as `drover sweep show --json` prints it:
 * {"id","state","params","value","steps","node","seconds","lease","error"?,"why"?,
 * "metrics":{last of each}}; value and node may be null. New reference. */
json_t *scheduler_trial_json(const struct scheduler *s, int trial);
int scheduler_trial_count(const struct scheduler *s);
/* Returns the other workers of the gang if `worker` runs this lease: a list of ids, borrowed until
 * the next step. NULL: it does not run the lease, or there is no gang. */
const json_t *scheduler_gang_members(const struct scheduler *s, const char *worker, int64_t lease);
/* Returns the worker that runs the trial for which `worker` has reserved a slot under this lease;
 * borrowed until the next step. NULL: no worker runs it yet, or there is no such reservation. */
const char *scheduler_runner(const struct scheduler *s, const char *worker, int64_t lease);
/* All trials; borrowed until the next step. */
struct trial_view scheduler_view(const struct scheduler *s);
/* The trial with the best value so far, or -1. Failed trials do not count. */
int scheduler_best(const struct scheduler *s);
/* The recommended trial: sampler_best(), or scheduler_best() if the sampler has none. May fit a
 * model: too slow for every event. */
int scheduler_recommended(const struct scheduler *s);

struct scheduler_counts { /* trials by state */
    int waiting, running, stopping, paused, done, pruned, failed, oom, invalid, cancelled;
    int total_wanted; /* run_cap, or the number of points to try; -1: unlimited */
};
struct scheduler_counts scheduler_counts(const struct scheduler *s);
/* The same from the number of trials per state. */
struct scheduler_counts scheduler_counts_of(const int *states, int total_wanted);
/* total_wanted of a sweep whose user has asked for `raised` more trials than run_cap, and has added
 * `added` sets of parameters, of which `extra` are not points that would be tried anyway. */
int scheduler_wanted(const struct spec *spec, int raised, int added, int extra);

/* Returns the state that follows from the records, for comparing. New reference. */
json_t *scheduler_dump(const struct scheduler *s);

#endif
