/* trial - one set of parameters being tried: its state, its learning curve, and where it runs. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/mem.h"
#include "common/states.h"
#include "hpo/trial/stop_reason.h"
#include "hpo/trial/trial_curve.h"

enum trial_state {
    TRIAL_WAITING,  /* waits for a slot: new, or requeued */
    TRIAL_LEASED,   /* granted to a worker; no report under this lease yet */
    TRIAL_RUNNING,  /* reported at least once under its present lease */
    TRIAL_STOPPING, /* was told to stop and has not ended */
    TRIAL_PAUSING,  /* was told to stop, and will be paused */
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
    TRIAL_EV_STOP,    /* told to stop, by early stopping, the timeout or a user */
    TRIAL_EV_PAUSE,   /* told to stop, to be leased again later */
    TRIAL_EV_REQUEUE, /* its lease is void and it waits again: worker lost, preempted, drained,
                         failed with `retry_failed` */
    TRIAL_EV_PAUSED,  /* a pausing trial's processes have ended */
    TRIAL_EV_END,     /* it enters a final state */
    TRIAL_EV_RETRY,   /* the user runs it again */
    TRIAL_EVENTS
};

/* The life cycle. TRIAL_STATES, after TRIAL_EV_END, stands for any final state. */
extern const struct states trial_states;

/* Returns true if the state is final. */
bool trial_is_ended(enum trial_state s);
/* Returns true if the trial's reports are useful to judge its parameters: it has not failed and was
 * not cancelled. */
bool trial_has_signal(enum trial_state s);
/* Returns true if a worker has a lease for a trial in this state. */
bool trial_is_active(enum trial_state s);
/* Returns the state's name: "waiting", "done", … */
const char *trial_state_name(enum trial_state s);
/* Returns the state with this name, or -1 if there is none. */
int trial_state_parse(const char *name);

struct trial {
    int id;
    enum trial_state state;
    json_t *params;
    int64_t lease;                /* number of the last lease; 0: none yet */
    char *worker, *node;          /* the worker of the last lease and its node; NULL: none yet */
    json_t *gang_workers;         /* the other workers of its gang; NULL: it runs on one node */
    enum stop_reason stop_reason; /* the reason in the last record that had one */
    char *stopper;   /* for STOP_REASON_EARLY: the early stopper's name; otherwise NULL */
    int tries_spent; /* REQUEUED records that counted against the retries */

    struct trial_curve curve;  /* of the sweep's first metric */
    struct trial_means *means; /* cache of trial_mean() */
    /* These are of the sweep's first metric; all reports count if the sweep has none. */
    int64_t points_lease; /* number of the last lease with a report; 0: none */
    double last_step;     /* the highest step under points_lease */
    int lease_reports;    /* reports under points_lease */
    bool diverged;        /* the metric's newest report was not a finite number */
    json_t *metrics;      /* maps the name of each metric that was reported to its last value
                             (json_number()) */

    double resumed_at; /* the step of its last point when it was last resumed; -INFINITY: it was
                          never paused and resumed */

    int64_t created_ms, leased_ms, ended_ms; /* times of these events; 0: not yet */
    int end_order;       /* its position in the order in which trials ended, from 1; 0: not ended */
    double seconds;      /* run time, measured by its worker */
    char *error;         /* NULL: none */
    size_t active_index; /* its index in sweep_state.active while it is active */
};

/* Returns a waiting trial, which the caller frees. The trial takes a new reference to `params`. */
struct trial *trial_new(int id, json_t *params, int64_t now_ms);
void trial_free(struct trial *t);
AUTO_DEFINE(trial, struct trial *, trial_free)

/* Sets the reason why the trial was stopped or requeued, from the word of a record. NULL: no
 * reason. */
void trial_set_stop_word(struct trial *t, const char *word);
/* Returns this word, or NULL if there is no reason. Borrowed until the word is set again. */
const char *trial_stop_word(const struct trial *t);

/* Adds a report under the last lease. `values` are numbers as json_number() writes them. `metric`
 * is the sweep's first metric; NULL: the sweep has none. Its first report under a new lease removes
 * its reports of earlier leases from this step on, since the trial continued from a checkpoint or
 * started again. trial_curve.h says what reports with equal steps mean. */
void trial_report(struct trial *t, double step, const json_t *values, const char *metric,
                  bool maximize);

/* Returns true if this report corrects the metric's last one to what it was, and says nothing else:
 * then it need not be stored. */
bool trial_repeated(const struct trial *t, double step, const json_t *values, const char *metric);

/* Returns the step of a report without one: the number of reports under this lease. */
double trial_next_step(const struct trial *t);

/* Returns the trial's best value or, with `last`, its last value. Returns NAN if it has none
 * yet. */
double trial_value(const struct trial *t, bool last);

/* Returns the mean of the first n points, 0 < n <= curve.count. Stores the means, so that each is
 * computed once. The first call allocates the memory. */
double trial_mean(const struct trial *t, size_t n);

struct trial_view { /* all trials of a sweep, in the order of their ids */
    const struct trial *const *trials;
    size_t count;
};
