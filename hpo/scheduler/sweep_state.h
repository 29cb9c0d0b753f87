/* sched_state - what follows from a sweep's records: its trials and the leases given for them.
 *
 * The only way to change it is a record, be it new or replayed; so both give the same state. */
#ifndef DROVER_SWEEP_STATE_H
#define DROVER_SWEEP_STATE_H

#include "common/err.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/spec/spec.h"
#include "hpo/trial/trial.h"

struct sweep_state { /* read by the scheduler's files; changed only here */
    const struct spec *spec;
    struct trial **trials;
    size_t count, cap;
    int *lease_trial; /* [lease - 1] */
    size_t lease_count, lease_cap;
    int *out; /* trials that workers hold */
    size_t out_count, out_cap;
    size_t waiting_from; /* no trial before it waits, and it does, if it is there */
    int counts[TRIAL_STATES];
    int ended_count;
    double ended_seconds; /* that they ran, all together */
    bool target_hit;      /* a trial reached metric.target */

    /* what the user asked for */
    bool paused, stopped;
    bool now;      /* `stopped`: trials are killed */
    int added;     /* trials with parameters of the user's */
    int raised;    /* trials more than run_cap */
    json_t *asked; /* the ids of all asks */
};

void sweep_state_free(struct sweep_state *st);

/* Borrows r. -EINVAL: it contradicts those before it; nothing has changed. */
int sweep_state_apply(struct sweep_state *st, const struct scheduler_record *r, struct err *e);

/* The trial that a lease was given for, or NULL: there was no such lease. */
struct trial *sweep_state_leased(const struct sweep_state *st, int64_t lease);

/* The first that waits, or NULL. */
struct trial *sweep_state_waiting(const struct sweep_state *st);

/* All of it. New reference. */
json_t *sweep_state_dump(const struct sweep_state *st);

static inline struct trial_view sweep_state_view(const struct sweep_state *st)
{
    return (struct trial_view){(const struct trial *const *)st->trials, st->count};
}

#endif
