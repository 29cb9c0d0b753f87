/* trial - one set of parameters being tried: its state, its learning curve, and where it runs. */
#ifndef DROVER_TRIAL_H
#define DROVER_TRIAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/mem.h"
#include "hpo/trial/stop_reason.h"
#include "hpo/trial/trial_curve.h"

enum trial_state {
    TRIAL_WAITING,  /* for a slot: new, or requeued */
    TRIAL_LEASED,   /* granted to a worker; nothing is reported under this lease yet */
    TRIAL_RUNNING,  /* something was reported under its present lease */
    TRIAL_STOPPING, /* was told to stop; its end is awaited */
    TRIAL_PAUSING,  /* was told to stop, and will continue later */
    TRIAL_PAUSED,
    TRIAL_DONE, /* this and all following states are final */
    TRIAL_PRUNED,
    TRIAL_FAILED,
    TRIAL_OOM,
    TRIAL_INVALID, /* exited with 0, but never reported the metric */
    TRIAL_CANCELLED,
    TRIAL_STATES
};

enum trial_event {
    TRIAL_EV_LEASE,   /* granted to a worker */
    TRIAL_EV_REPORT,  /* a report under its last lease */
    TRIAL_EV_STOP,    /* told to stop (early stopping, timeout, the user) */
    TRIAL_EV_PAUSE,   /* told to stop, to be leased again later */
    TRIAL_EV_REQUEUE, /* its lease is void and it waits again: lost, preempted, drained, retried */
    TRIAL_EV_PAUSED,  /* a pausing trial's processes have ended */
    TRIAL_EV_END,     /* it enters a final state */
    TRIAL_EV_RETRY,   /* the user runs it again */
    TRIAL_EVENTS
};

/* Returns the state after `ev`; TRIAL_STATES for TRIAL_EV_END (any final state); -1: `ev` has no
 * meaning in state `s`. */
int trial_next_state(enum trial_state s, enum trial_event ev);

/* Whether the state is final. */
bool trial_is_ended(enum trial_state s);
/* Whether the trial's reports say something about its parameters: not if it failed or was
 * cancelled. */
bool trial_has_signal(enum trial_state s);
/* Whether a worker has a lease for it. */
bool trial_is_active(enum trial_state s);
/* "waiting", "done", … */
const char *trial_state_name(enum trial_state s);
/* Returns the state of that name; -1: there is none. */
int trial_state_parse(const char *name);

struct trial {
    int id;
    enum trial_state state;
    json_t *params;
    int64_t lease;                /* the last one granted; 0: none yet */
    char *worker, *node;          /* of the last lease; NULL: none yet */
    json_t *gang_workers;         /* the other workers of its gang; NULL: it runs on one node */
    enum stop_reason stop_reason; /* of its last record that had one */
    char *stopper;                /* STOP_REASON_EARLY: the early stopper's name; else NULL */
    int tries_spent;              /* REQUEUED records that counted against the retries */

    struct trial_curve curve;  /* of the sweep's metric */
    struct trial_means *means; /* cache of trial_mean() */
    int64_t points_lease;      /* the last lease with a report; 0: none */
    double last_step;          /* the highest step under points_lease */
    int lease_reports;         /* reports of the sweep's metric under points_lease */
    bool diverged;             /* the metric's newest report was not a finite number */
    json_t *metrics; /* name -> last value (json_number()) of every metric that was ever reported */

    double resumed_at; /* the last step of its points when it was last leased after a pause;
                          -INFINITY: it never was */

    int64_t created_ms, leased_ms, ended_ms; /* 0: it has not happened */
    int end_order;       /* its place in the order of ends, from 1; 0: not ended */
    double seconds;      /* run time, as its worker measured it */
    char *error;         /* NULL: none */
    size_t active_index; /* its index in sweep_state.out while it is active */
};

/* Takes a reference of its own to `params`. */
struct trial *trial_new(int id, json_t *params, int64_t now_ms);
void trial_free(struct trial *t);
AUTO_DEFINE(trial, struct trial *, trial_free)

/* Sets why the trial was stopped or requeued, from the word of a record; NULL: no reason. */
void trial_set_stop_word(struct trial *t, const char *word);
/* That word; NULL: no reason. Borrowed until it is set again. */
const char *trial_stop_word(const struct trial *t);

/* Adds a report of the last lease. `values` are numbers as json_number() writes them; `metric` is
 * the sweep's (NULL: it has none). The first report of a new lease drops the points of earlier
 * leases from its step on, since the trial continued from a checkpoint or began again. A step that
 * was reported before is replaced. */
void trial_report(struct trial *t, double step, const json_t *values, const char *metric,
                  bool maximize);

/* Whether this report is already known and adds nothing, since its message was received twice. */
bool trial_repeated(const struct trial *t, double step, const json_t *values, const char *metric);

/* The step of a report without one: the number of reports under this lease. */
double trial_next_step(const struct trial *t);

/* The trial's value: the best, or the last one; NAN: none yet. */
double trial_value(const struct trial *t, bool last);

/* The mean of the first n points, 0 < n <= curve.count. Each mean is computed once and kept;
 * without a call no memory is used. */
double trial_mean(const struct trial *t, size_t n);

struct trial_view { /* all trials of a sweep, in the order of their ids */
    const struct trial *const *trials;
    size_t count;
};

#endif
