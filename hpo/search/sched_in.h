/* sched_in - what the files of the scheduler share; nobody else includes it. */
#ifndef DROVER_SCHED_IN_H
#define DROVER_SCHED_IN_H

#include "hpo/search/sampler.h"
#include "hpo/search/sched.h"
#include "hpo/search/sched_state.h"
#include "hpo/search/stopper.h"

struct worker {
    char *id, *node;
    int places;
    int busy;        /* leases that are out: follows from the records */
    bool here;       /* said hello, and is not lost */
    bool leaving;    /* takes no more */
    int64_t lost_ms; /* when it counts as lost unless it says hello; INT64_MAX: it is not awaited */
};

struct sched {
    const struct spec *spec;
    struct sched_state st;
    struct sampler *sampler;
    struct sampler_goal goals[SPEC_METRICS_MAX]; /* of the sampler's task */
    const struct stopper_ops *stopper;           /* NULL: none */

    struct worker **workers;
    size_t worker_count, worker_cap;
    json_t *worker_index; /* id -> index */

    int total_wanted;    /* -1: unlimited */
    json_t *next_params; /* of trial number st.count; NULL: not asked yet, or exhausted */
    json_t *learnt;      /* what the last trial's CREATED kept of the sampler; NULL: nothing */
    bool exhausted;
    bool draining;
    char *end_why;          /* set once the sweep is over */
    int64_t replayed_lease; /* leases up to it were given by a coordinator before this one */
    int replayed_failures;
};

/* ---- sched.c: what the event handlers do -------------------------------------------------------
 */

struct step { /* an event that is being handled */
    struct sched *s;
    struct sched_out *out;
    int64_t now_ms;
};

/* Makes a fact: applies and appends a record. Takes over `data`. */
void sched_in_record(struct step *st, enum sched_record_kind kind, const struct trial *t,
                     int64_t lease, json_t *data);
void sched_in_act(struct step *st, enum sched_action_kind kind, const char *worker, int trial,
                  int64_t lease, const char *why);

/* What the stopper says after a report of trial `t`, which is then applied. */
enum stopper_verdict sched_in_judge(const struct sched *s, struct trial *t);

/* The worker of that id, or NULL. */
struct worker *sched_in_worker(const struct sched *s, const char *id);
/* The same; a new one where there is none. */
struct worker *sched_in_worker_new(struct sched *s, const char *id);

/* Why no new trial starts although there are points left, or NULL: target, or given up. */
const char *sched_in_closed(const struct sched *s);

/* ---- sched_event.c -----------------------------------------------------------------------------
 */

/* A trial has come to an end. Takes over `error` (NULL: none). */
void sched_in_end(struct step *st, const struct trial *t, enum trial_state state, double seconds,
                  char *error);

/* -EINVAL: the event's data is malformed; nothing has happened. */
int sched_in_handle(struct step *st, const struct sched_event *ev, struct err *e);

#endif
