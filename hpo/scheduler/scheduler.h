/* scheduler - makes the decisions of a sweep. Its input is events and the time, its output is
 * records and actions.
 *
 * A record is a fact. The caller commits it to the store before it carries out any action of the
 * same step. Replaying all records in order (scheduler_replay()) gives the same state. An action is
 * an effect. Actions are idempotent, depend only on the state, and are not stored. One step:
 *
 *     scheduler_handle(s, &event, now_ms, &out);
 *     event_store_append(…); for all out.records, then event_store_commit(…);
 *     perform(…); for all out.actions
 *
 * An event that has no meaning in the present state (late, repeated, of an old lease) gives neither
 * records nor actions. The scheduler does no I/O and reads no clock; all its randomness derives
 * from the sweep's seed. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/json.h"
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
    SCHEDULER_EV_REPORT,   /* a trial has reported: lease, data {"step":…, metrics…} */
    SCHEDULER_EV_DONE,     /* a trial run has ended: lease, data */
    SCHEDULER_EV_TESTED,   /* a worker's self-test has ended: worker, data */
    SCHEDULER_EV_TICK,     /* time has passed */
    SCHEDULER_EV_DRAIN,    /* the coordinator ends: trials are stopped and requeued */
    SCHEDULER_EV_COMMAND,  /* a command of the user: data */
    SCHEDULER_EV_PREFETCH, /* creates the next trial if scheduler_wants_prefetch() */
};

/* HELLO's data: {"slots":4,"node":"c03","running":[lease,…]}. `running` lists every lease whose
 * DONE the coordinator has not confirmed. A listed lease that is not valid is answered with a STOP.
 * A lease that the coordinator has granted to this worker, but that the worker does not list, is
 * lost.
 *
 * SLOTS' data: {"slots":3}. Running trials continue even if there are fewer slots now.
 *
 * REVOKED: the trial is stopped and requeued, as if its worker had preempted it.
 *
 * RESERVED's data describes the resources of the slot. The action RUN contains it unchanged.
 *
 * LOST: the worker's leases become void, and the trials are requeued. The worker gets no trial
 * until its next hello.
 *
 * REPORT's data: numbers as json_number() writes them; other values are dropped. If there is no
 * "step", the step is the number of reports of the metric under this lease. Each report counts, so
 * the caller must drop messages that it receives twice (message_dedup.h).
 *
 * DONE's data: {"status":0,"signal":0,"oom":false,"seconds":1.5,"error":"…"?,"preempted":bool?,
 * "stopped":bool?,"not_started":bool?,"node_fault":N?}. "stopped":false says that the job ended by
 * itself: then a STOP that was sent at the same time does not count. If "stopped" is missing, a
 * trial that was told to stop counts as stopped.
 *
 * "node_fault" says that the trial ended because of a node: it could not start the trial, or could
 * not write its output. N is 0 for the node that runs the trial, 1 … for the others of its gang.
 * The trial is requeued and spends no retry, and the node's worker gets no trial for a time
 * (worker_health.h). If too few workers are left that can start a trial, the sweep ends, and
 * continues with the next coordinator: scheduler_lacks_workers().
 *
 * TESTED's data: {"why":"…"?}, the cause if the self-test failed.
 *
 * Only the first DONE under the trial's last lease counts. If the worker was lost, reports and a
 * success under this lease still count until the trial is leased again; a failure does not count.
 *
 * COMMAND's data: {"ask":"the command's id","verb":…}, and for each verb
 *   stop    "finish":bool?  ends the sweep: no trial starts, and waiting trials are cancelled.
 *           "now":bool?     Running trials are stopped (with "now" killed) and end as cancelled;
 *                           with "finish" they continue
 *   cancel  "trials":[id,…] ends these trials as cancelled; those that run are stopped (with "now"
 *           "now":bool?     killed). The sweep continues
 *   pause   "finish":bool?  no trial starts until `resume`; running trials are stopped and requeued
 *                           (with "finish" they continue)
 *   resume                  cancels the effect of `pause` and `stop`
 *   retry   "trials":[id,…], or "failed":true: all trials that failed, ran out of memory or are
 *                           invalid. These trials wait again, with all their retries
 *   add     "params":[set,…]: adds trials with these parameters
 *           "trials":N      raises run_cap by N
 * After `retry` and `add`, a sweep continues that was stopped or had reached its target. A command
 * whose id is known has no effect. A command that is not possible now gives -EINVAL and a hint.
 *
 * A trial that was told to pause becomes paused when it stops or its worker is lost; its slot is
 * then free. The trial is leased again when the stopper resumes it. When no other work is left,
 * paused trials end as pruned. */
struct scheduler_event {
    enum scheduler_event_kind kind;
    const char *worker; /* the worker's id; NULL for TICK, DRAIN, COMMAND and PREFETCH */
    int64_t lease;      /* 0: none */
    json_t *data;       /* borrowed; may be NULL if the event has none */
};

enum scheduler_record_kind {
    /* trial, data: {"params":{…},"learnt":…?} where "learnt" is the result of sampler_save(); or
     * {"params":{…},"added":true} for the command `add` */
    SCHEDULER_REC_CREATED,
    /* trial, lease, data: {"worker":…,"node":…,"with":[worker,…]?}: `worker` runs the trial, and
     * each worker in "with" reserves a slot for it */
    SCHEDULER_REC_LEASED,
    /* trial, lease, data: {"step":…,"values":{…}} */
    SCHEDULER_REC_REPORT,
    /* trial, lease, data: {"why":"median"|"hyperband"|…|"timeout"|"drain"|"stop"|"pause"|
     * "preempted"}: the name of an early stopper, or a word of stop_reason.h */
    SCHEDULER_REC_STOPPING,
    /* trial, lease, data: {"why":"lost"|"preempted"|"drain"|"pause"|"failed"|"node","spent":bool,
     * "error":…?}; "spent" is true if this counts as a retry */
    SCHEDULER_REC_REQUEUED,
    /* trial, lease, data: {"state":"done",…,"value":number or null,"seconds":…,"error":…?,
     * "why":…?} */
    SCHEDULER_REC_ENDED,
    /* trial, lease, data: {"why":"curve"}: the trial was told to stop and may continue later */
    SCHEDULER_REC_PAUSING,
    /* trial, lease, data: {"seconds":…} */
    SCHEDULER_REC_PAUSED,
    /* for the whole sweep: trial -1, lease 0, data as SCHEDULER_EV_COMMAND */
    SCHEDULER_REC_COMMAND,
    /* trial, lease, data: {} */
    SCHEDULER_REC_RETRIED,
    SCHEDULER_REC_KINDS
};

struct scheduler_record {
    enum scheduler_record_kind kind;
    int64_t at_ms; /* wall clock, as given to scheduler_handle() */
    int trial;     /* 0, 1, …; -1: the record is for the whole sweep */
    int64_t lease; /* 0: none. Lease numbers are unique in a sweep */
    json_t *data;  /* owned by the record */
};

enum scheduler_action_kind {
    SCHEDULER_ACT_RUN,     /* tell `worker` to run trial `trial` with `params` under `lease` */
    SCHEDULER_ACT_RESERVE, /* tell `worker` to reserve a slot for `lease`; STOP releases it */
    SCHEDULER_ACT_STOP,    /* tell `worker` to stop `lease` */
    SCHEDULER_ACT_KILL,    /* tell `worker` to kill `lease` */
    SCHEDULER_ACT_TEST,    /* tell `worker` to run its self-test */
    SCHEDULER_ACT_HEALTH,  /* what scheduler_worker_fault() returns for `worker` has changed */
    SCHEDULER_ACT_NOTICE,  /* tell the user `reason`; a text is emitted once per scheduler */
    SCHEDULER_ACT_END,     /* the sweep has ended; emitted once per scheduler */
};

struct scheduler_action { /* borrows from the scheduler until the next step */
    enum scheduler_action_kind kind;
    const char *worker;
    int trial; /* -1: no such lease was ever granted */
    int64_t lease;
    json_t *params;
    /* RUN: a list of {"node":…,"resources":RESERVED's data}, one per other worker of the gang, in
     * order. NULL: the trial runs on one node */
    json_t *gang_nodes;
    /* STOP, KILL: the word of the stop reason, or a text why the slot or lease is not needed. END:
     * stop_reason_text(), and the cause if scheduler_lacks_workers(). NOTICE: a line */
    const char *reason;
};

struct scheduler_out { /* the result of one step; scheduler_handle() clears it */
    struct scheduler_record *records;
    size_t record_count;
    struct scheduler_action *actions;
    size_t action_count;
};
void scheduler_out_free(struct scheduler_out *out);

/* Creates a scheduler, which the caller frees. Borrows the spec, which must outlive the scheduler.
 *   -EINVAL  the spec's `early_terminate` is invalid, or there is no metric for it */
int scheduler_new(struct scheduler **out, const struct spec *spec, struct err *e);
void scheduler_free(struct scheduler *s);
AUTO_DEFINE(scheduler, struct scheduler *, scheduler_free)

/* Applies a stored record. Must be called for all records in order, before the first
 * scheduler_handle(). Borrows r->data.
 *   -EINVAL  the record contradicts earlier ones: the store is damaged */
int scheduler_replay(struct scheduler *s, const struct scheduler_record *r, struct err *e);

/* Must be called after the last replay. Leases that were active when the last coordinator ended
 * stay active. The hello of their worker decides if they are lost; without a hello, they are lost
 * when `lost_after` has passed since now_ms. */
void scheduler_replayed(struct scheduler *s, int64_t now_ms);

/* Handles an event and sets `out` to its records and actions. `out` must be zeroed before its first
 * use. If the caller cannot commit the records, it must free the scheduler and replay.
 *   -EINVAL  the event's data is malformed, or the command is not possible; nothing has changed,
 *            and `out` is empty */
int scheduler_handle(struct scheduler *s, const struct scheduler_event *ev, int64_t now_ms,
                     struct scheduler_out *out, struct err *e);

/* Returns true if the next trial should be created before a slot is free, since the sampler takes
 * long and the slot would be idle. The caller must then handle SCHEDULER_EV_PREFETCH before any
 * other event except DRAIN, so that proposals depend only on the order of the other events. Before
 * that, the caller carries out the actions of the last step, since the proposal takes long. */
bool scheduler_wants_prefetch(const struct scheduler *s);

/* Returns the time at which the next TICK must be handled; INT64_MAX: none is needed. */
int64_t scheduler_deadline(const struct scheduler *s);
bool scheduler_is_done(const struct scheduler *s);
/* Return true if a user has paused the sweep, or has stopped it. */
bool scheduler_is_paused(const struct scheduler *s);
bool scheduler_is_stopped(const struct scheduler *s);
/* Returns true if the sweep has ended because no worker is left that can start a trial. Its trials
 * wait for the next coordinator. */
bool scheduler_lacks_workers(const struct scheduler *s);

/* Says if more workers are expected to connect: then the sweep does not end because those that have
 * connected cannot start a trial. Returns true if this has changed; a TICK must follow. */
bool scheduler_expect_workers(struct scheduler *s, bool expected);

/* Returns the workers that had trials when the last coordinator ended and have not connected since
 * (new reference): [{"id","node","lost_ms"},…]. At "lost_ms" they count as lost. */
json_t *scheduler_awaited(const struct scheduler *s);

/* Returns the last fault of a worker (new reference), or NULL if it had none:
 * {"state":"good"|"backing off"|"suspect"|"excluded"|"testing","error":…,"since_ms":…,
 * "failures":…,"due_ms":…}. "failures" and "since_ms" are of the failures since the last success;
 * at "due_ms" the worker gets trials again, or its self-test is due (0: it gets trials). */
json_t *scheduler_worker_fault(const struct scheduler *s, const char *worker);

/* Returns a trial in the form that `drover sweep show --json` prints (new reference):
 * {"id","state","params","value","steps","node","seconds","lease","error"?,"why"?,
 * "metrics":{name: last value, …}}; value and node may be null. */
json_t *scheduler_trial_json(const struct scheduler *s, int trial);
/* Returns the ids of the other workers of the gang, as a list that is borrowed until the next step.
 * Returns NULL if `worker` does not run this lease, or the trial has no gang. */
const json_t *scheduler_gang_members(const struct scheduler *s, const char *worker, int64_t lease);
/* Returns the id of the worker that runs the trial for which `worker` has reserved a slot under
 * this lease; borrowed until the next step. Returns NULL if no worker runs the trial yet, or there
 * is no such reservation. */
const char *scheduler_runner(const struct scheduler *s, const char *worker, int64_t lease);
/* Returns all trials, borrowed until the next step. */
struct trial_view scheduler_view(const struct scheduler *s);
/* Returns the id of the trial with the best value so far, or -1 if there is none. Failed trials do
 * not count. */
int scheduler_best(const struct scheduler *s);

/* Returns sampler_note() of the trials so far, which the caller frees; NULL: nothing. */
char *scheduler_note(const struct scheduler *s);
/* Returns stopper_unused() of the trials so far, which the caller frees; NULL: nothing. */
char *scheduler_unused_stopper(const struct scheduler *s);

struct scheduler_counts { /* number of trials by state */
    int waiting, running, stopping, paused, done, pruned, failed, oom, invalid, cancelled;
    int total_wanted; /* number of trials that the sweep will have; -1: unlimited */
};
struct scheduler_counts scheduler_counts(const struct scheduler *s);
/* The same from the number of trials per state. */
struct scheduler_counts scheduler_counts_of(const int *states, int total_wanted);
/* total_wanted of a sweep whose user has asked for `raised` more trials than run_cap, and has added
 * `added` sets of parameters, of which `extra` are not points that would be tried anyway. */
int scheduler_wanted(const struct spec *spec, int raised, int added, int extra);
