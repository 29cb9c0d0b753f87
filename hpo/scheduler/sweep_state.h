/* sweep_state - the state of a sweep that its records determine: the trials and their leases.
 *
 * Only a record changes the state, and a new record has the same effect as a replayed one. */
#pragma once

#include "common/err.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/spec/spec.h"
#include "hpo/trial/trial.h"

struct sweep_commands { /* the effects of the user's commands on the sweep */
    bool paused, stopped;
    bool now;   /* `stopped` with "now": trials are killed */
    bool more;  /* the last command asks for more trials */
    int raised; /* trials beyond run_cap */
};

struct sweep_state { /* the scheduler reads the fields; only sweep_state.c changes them */
    const struct spec *spec;
    struct trial **trials;
    size_t count;
    int *lease_trial; /* lease_trial[lease - 1] is the trial's id */
    size_t lease_count;
    int *active; /* the ids of trials with an active lease */
    size_t active_count;
    size_t waiting_from; /* index of the first waiting trial; equal to `count` if none waits */
    int counts[TRIAL_STATES];
    int ended_count;
    double ended_seconds; /* total run time of the ended trials */
    bool target_hit;      /* a trial has reached all targets */

    int added; /* number of trials with parameters from the user */
    struct sweep_commands asked;
    json_t *commands; /* the ids of all commands, as a set; NULL: none */
};

void sweep_state_free(struct sweep_state *st);

/* Applies a record, which is borrowed.
 *   -EINVAL  the record contradicts earlier ones; nothing has changed */
int sweep_state_apply(struct sweep_state *st, const struct scheduler_record *r, struct err *e);

/* The rules of records, which the reader's columns share (sweep_columns.c). */

/* The event of its trial that a record is. */
extern const enum trial_event sweep_state_events[SCHEDULER_REC_KINDS];
/* Returns what the data of a record lack; NULL: nothing. `why` and `seconds`: they have these
 * members. Members of other kinds may be missing. */
const char *sweep_state_missing(enum scheduler_record_kind kind, bool why, bool seconds);
/* Applies the record of a command. Returns false if it is invalid. */
bool sweep_state_command(struct sweep_commands *c, const struct scheduler_record *r);

/* Returns the trial of a lease, or NULL if there was no such lease. */
struct trial *sweep_state_leased(const struct sweep_state *st, int64_t lease);

/* Returns the first waiting trial, or NULL. */
struct trial *sweep_state_waiting(const struct sweep_state *st);

static inline struct trial_view sweep_state_view(const struct sweep_state *st)
{
    return (struct trial_view){(const struct trial *const *)st->trials, st->count};
}
