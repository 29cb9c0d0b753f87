/* sched - decides for a sweep. Events and the time go in; records and actions come out.
 *
 * A record is a fact: it is committed to the store before any action of the same step is carried
 * out, and replaying all records in their order (scheduler_replay) gives the same state. Actions
 * are effects, idempotent, and follow from the state: they are not stored.
 *
 *     scheduler_handle(s, &event, now_ms, &out);  event_store_append(out.records);
 * perform(out.actions)
 *
 * An event that means nothing in the present state (late, repeated, of an old lease) gives neither.
 * Pure: no I/O, no clock, no randomness but the sweep's seed. */
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
    SCHEDULER_EV_HELLO,   /* a worker is there: worker, data */
    SCHEDULER_EV_SLOTS,   /* a worker runs more or fewer trials at once from now on: worker, data */
    SCHEDULER_EV_LOST,    /* a worker is gone (its process ended, or silent for lost_after) */
    SCHEDULER_EV_LEAVING, /* a worker takes no more trials, until it says hello again */
    SCHEDULER_EV_RESERVED, /* a worker has reserved a place: worker, lease, data */
    SCHEDULER_EV_REVOKED,  /* a worker needs such a place back: worker, lease */
    SCHEDULER_EV_REPORT,   /* lease, data {"step":…, metrics…} */
    SCHEDULER_EV_DONE,     /* lease, data: how the job ended */
    SCHEDULER_EV_TICK,     /* time has passed */
    SCHEDULER_EV_DRAIN,    /* the user wants to stop: trials are stopped and go back to waiting */
    SCHEDULER_EV_COMMAND,  /* the user asks for something of the sweep: data */
    SCHEDULER_EV_PREFETCH, /* makes the trial that scheduler_wants_prefetch(), if it does */
};

/* HELLO's data: {"slots":4,"node":"c03","running":[lease,…]}. `running` lists every lease whose
 * DONE the coordinator has not confirmed. One that is not valid (any more) is answered with a STOP;
 * one that the coordinator thinks is out there but is not listed is lost.
 *
 * PLACES' data: {"slots":3}. Trials that are there stay, also where it has fewer places now.
 *
 * DROP: the trial is stopped, and waits again as one whose worker has preempted it.
 *
 * HELD's data says what there is at that place; it is handed on as it is.
 *
 * LOST: the worker's leases are void, the trials wait again; it gets none until it says hello.
 *
 * REPORT's data: numbers as json_number() writes them; what is no number is dropped. Without "step"
 * the reports of the metric under this lease count, so a worker that may send a message twice says
 * the step: a report that was there before gives nothing.
 *
 * DONE's data: {"status":0,"signal":0,"oom":false,"seconds":1.5,"error":"…"?,"preempted":bool?,
 * "stopped":bool?}. "stopped":false says that the job ended by itself, so that a STOP which crossed
 * the message does not count; without it, a trial that was told to stop has stopped.
 *
 * Which end counts: the first of the trial's last lease. Between being lost and being leased again
 * that lease's reports and its success (not its failure) still count; after that it is void.
 *
 * ASK's data: {"ask":"its id","verb":…}, and by the verb
 *   stop    "now":bool?     running trials are stopped (now: killed) and end as cancelled, as does
 *                           what waits: the sweep is over
 *   pause   "finish":bool?  nothing is started until `resume`; running trials are stopped and go
 *                           back to waiting (finish: come to their end)
 *   resume                  takes back `pause` and `stop`
 *   retry   "trials":[id,…], or "failed":true: all that failed, ran out of memory or are invalid.
 *                           They wait again, with all their retries
 *   add     "params":[set,…]: trials with these parameters; or "trials":N: N more than run_cap
 * Both of the last take back a `stop`, and a target that was reached. An ask that comes again, by
 * its id, gives nothing. -EINVAL with the way out where it makes no sense now.
 *
 * A trial that was told to pause and has stopped, or whose worker is lost, is paused: its place is
 * free. It is leased again when its stopper says so. What is paused when nothing else is left to do
 * ends as pruned. */
struct scheduler_event {
    enum scheduler_event_kind kind;
    const char *worker; /* its id; NULL for TICK, DRAIN and ASK */
    int64_t lease;      /* 0 where none */
    json_t *data;       /* borrowed; may be NULL where nothing is to be said */
};

enum scheduler_record_kind {
    SCHEDULER_REC_CREATED, /* trial, data: {"params":{…},"learnt":…?}: what sampler_save() gave; or
                          {"params":{…},"added":true}: by the user */
    SCHEDULER_REC_LEASED, /* trial, lease, data: {"worker":…,"node":…,"with":[worker,…]?}: one runs
                         it, those of "with" hold a place each for it */
    SCHEDULER_REC_REPORT,   /* trial, lease, data: {"step":…,"values":{…}} */
    SCHEDULER_REC_STOPPING, /* trial, lease, data: {"why":"median"|"hyperband"|"timeout"|"drain"|
                           "stop"|"pause"|"preempted"} */
    SCHEDULER_REC_REQUEUED, /* trial, lease, data:
                           {"why":"lost"|"preempted"|"drain"|"pause"|"failed",
                           "spent":bool,"error":…?}; spent: it counts against the retries */
    SCHEDULER_REC_ENDED,    /* trial, lease, data: {"state":"done",…,"value":number or null,
                           "seconds":…,"error":…?,"why":…?} */
    SCHEDULER_REC_PAUSING,  /* trial, lease, data: {"why":"curve"}: it was told to stop, to go on
                             * later
                             */
    SCHEDULER_REC_PAUSED,   /* trial, lease, data: {"seconds":…} */
    SCHEDULER_REC_COMMAND,  /* of the sweep: trial -1, lease 0, data: an ASK's */
    SCHEDULER_REC_RETRIED,  /* trial, lease, data: {} */
    SCHEDULER_REC_KINDS
};

struct scheduler_record {
    enum scheduler_record_kind kind;
    int64_t at_ms; /* wall clock, as given to scheduler_handle() */
    int trial;     /* 0, 1, …; -1: of the sweep as a whole */
    int64_t lease; /* 0 where none; leases count up over the whole sweep and are never used again */
    json_t *data;  /* owned by the record */
};

enum scheduler_action_kind {
    SCHEDULER_ACT_RUN,     /* send trial `trial` under `lease` to `worker`: params */
    SCHEDULER_ACT_RESERVE, /* have `worker` reserve a place for `lease`; a STOP takes it back */
    SCHEDULER_ACT_STOP,    /* tell `worker` to stop `lease` */
    SCHEDULER_ACT_KILL,    /* … to kill it */
    SCHEDULER_ACT_END,     /* the sweep has ended. Once in a scheduler's life */
};

struct scheduler_action {
    enum scheduler_action_kind kind;
    const char *worker; /* borrowed from the scheduler until the next step */
    int trial;          /* -1: a lease that never was */
    int64_t lease;
    json_t *params; /* borrowed likewise */
    json_t *others; /* RUN: {"node":…,"resources":HELD's data} of each that holds a place, in order;
                       NULL:  there are none. Borrowed likewise */
    const char *reason; /* STOP, KILL: the word of the stop reason, or why the lease is void; END: a
                           sentence. Borrowed until the next step */
};

struct scheduler_out { /* what one step gave; cleared by scheduler_handle(), freed by
                          scheduler_out_free() */
    struct scheduler_record *records;
    size_t record_count;
    struct scheduler_action *actions;
    size_t action_count;
};
void scheduler_out_free(struct scheduler_out *out);

/* Borrows the spec, which must outlive it. */
int scheduler_new(struct scheduler **out, const struct spec *spec, struct err *e);
void scheduler_free(struct scheduler *s);
AUTO_DEFINE(scheduler, struct scheduler *, scheduler_free)

/* Feeds a stored record; in order, before the first step. Borrows r->data.
 *   -EINVAL  it contradicts those before it: the store is damaged */
int scheduler_replay(struct scheduler *s, const struct scheduler_record *r, struct err *e);

/* After the last replay: leases that were out when the coordinator ended stay out until their
 * worker says hello (and claims them) or `lost_after` has passed since now_ms. */
void scheduler_replayed(struct scheduler *s, int64_t now_ms);

/* Lets an event happen. `out` (zeroed before its first use) holds what follows from it; a caller
 * that cannot commit the records drops the scheduler and replays.
 *   -EINVAL  the event's data is malformed: nothing has happened, `out` is empty */
int scheduler_handle(struct scheduler *s, const struct scheduler_event *ev, int64_t now_ms,
                     struct scheduler_out *out, struct err *e);

/* Whether the next trial is to be made before there is a place for it, because suggesting it takes
 * so long that the place would wait. Then SCHEDULER_EV_PREFETCH has to come before any other event
 * (but DRAIN): so what is suggested follows from the order of the others alone. Actions are carried
 * out first: making it takes long. */
bool scheduler_wants_prefetch(const struct scheduler *s);

/* When the next TICK is due; INT64_MAX: none. */
int64_t scheduler_deadline(const struct scheduler *s);
bool scheduler_is_done(const struct scheduler *s);
/* What the user has asked for last: whether nothing is started for now; or at all. */
bool scheduler_is_paused(const struct scheduler *s);
bool scheduler_is_stopped(const struct scheduler *s);

/* For people and programs: one trial as DESIGN's `sweep show` has it
 * {"id","state","params","value","steps","node","seconds","lease","error"?,"why"?,
 * "metrics":{last of each}}; value and node may be null. New reference. */
json_t *scheduler_trial_json(const struct scheduler *s, int trial);
int scheduler_trial_count(const struct scheduler *s);
/* The workers that hold places for the lease, which `worker` runs: a list of ids, borrowed until
 * the next step. NULL: it does not, or there are none. */
const json_t *scheduler_gang_members(const struct scheduler *s, const char *worker, int64_t lease);
/* Who runs the trial that `worker` holds a place for under this lease; borrowed until the next
 * step. NULL: nobody yet, or it holds none. */
const char *scheduler_runner(const struct scheduler *s, const char *worker, int64_t lease);
/* All trials; borrowed until the next step. */
struct trial_view scheduler_view(const struct scheduler *s);
/* The trial with the best value so far, or -1; those that failed do not count. */
int scheduler_best(const struct scheduler *s);
/* The trial to take: as sampler_best() has it, else scheduler_best(). May fit a model: not for
 * every event. */
int scheduler_recommended(const struct scheduler *s);

struct scheduler_counts { /* trials by state */
    int waiting, running, stopping, paused, done, pruned, failed, oom, invalid, cancelled;
    int total_wanted; /* run_cap, or how many points there are to try; -1: unlimited */
};
struct scheduler_counts scheduler_counts(const struct scheduler *s);

/* All that follows from the records and nothing else, for comparing. New reference. */
json_t *scheduler_dump(const struct scheduler *s);

#endif
