/* trial - one set of parameters being tried: its states, and what is known about it. */
#ifndef DROVER_TRIAL_H
#define DROVER_TRIAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/mem.h"
#include "hpo/trial/stop_reason.h"

enum trial_state {
    TRIAL_WAITING,  /* for a place: new, or sent back */
    TRIAL_LEASED,   /* handed to a worker; it has reported nothing yet */
    TRIAL_RUNNING,  /* has reported under its present lease */
    TRIAL_STOPPING, /* was told to stop; its end is awaited */
    TRIAL_PAUSING,  /* was told to stop, to go on later */
    TRIAL_PAUSED,
    TRIAL_DONE, /* from here on: the ends */
    TRIAL_PRUNED,
    TRIAL_FAILED,
    TRIAL_OOM,
    TRIAL_INVALID, /* exited with 0, but never reported the metric */
    TRIAL_CANCELLED,
    TRIAL_STATES
};

enum trial_event {
    TRIAL_EV_LEASE,   /* given to a worker */
    TRIAL_EV_REPORT,  /* a report of its last lease */
    TRIAL_EV_STOP,    /* it is to end (early stopping, time-out, the user) */
    TRIAL_EV_PAUSE,   /* it is to end, and to be leased again later */
    TRIAL_EV_REQUEUE, /* its lease is void and it waits again: lost, preempted, drained, retried */
    TRIAL_EV_PAUSED,  /* a pausing trial's processes have ended */
    TRIAL_EV_END,     /* it has come to one of the ends */
    TRIAL_EV_RETRY,   /* the user wants it to be run again */
    TRIAL_EVENTS
};

/* The state after `ev`; TRIAL_STATES for TRIAL_EV_END ("one of the ends"); -1: means nothing here.
 */
int trial_next_state(enum trial_state s, enum trial_event ev);

bool trial_is_ended(enum trial_state s);
/* Whether what it reported says something of its parameters: those that failed do not count. */
bool trial_has_signal(enum trial_state s);
/* Whether workers hold it. */
bool trial_is_active(enum trial_state s);
/* "waiting", "done", … */
const char *trial_state_name(enum trial_state s);
/* -1: no such state */
int trial_state_parse(const char *name);

struct trial_point { /* one finite value of the sweep's metric */
    double step;
    double value;
};

struct trial {
    int id;
    enum trial_state state;
    json_t *params;
    int64_t lease;        /* the last one given; 0: none yet */
    char *worker, *node;  /* of the last lease; NULL: none yet */
    json_t *gang_workers; /* the other workers that hold places for it; NULL: it needs none */
    enum stop_reason stop_reason; /* of its last record that had one */
    char *stopper;                /* STOP_REASON_EARLY: the early stopper's name; else NULL */
    int tries_spent;              /* REQUEUED records that count against the retries */

    struct trial_point *points; /* by rising step */
    size_t point_count, point_cap;
    struct trial_means *means; /* trial_mean()'s */
    double best;               /* of their values; NAN: there are none */
    int64_t points_lease;      /* the last lease that reported; 0: none */
    double last_step;          /* the highest under points_lease */
    int lease_reports;         /* under points_lease, of the sweep's metric */
    bool diverged;             /* the metric's newest report was no finite number */
    json_t *metrics; /* name -> last value (json_number()), of all that was ever reported */

    double resumed_at; /* the last step of its points when it was last leased after a pause;
                          -INFINITY: it never was */

    int64_t created_ms, leased_ms, ended_ms; /* 0: has not happened */
    int end_order;       /* so many trials had ended with it; 0: it has not, or nobody counts */
    double seconds;      /* of run time, as its worker measured */
    char *error;         /* NULL: none */
    size_t active_index; /* in the sweep's list of those that workers hold, while it is in it */
};

struct trial *trial_new(int id, json_t *params, int64_t now_ms); /* takes its own reference */
void trial_free(struct trial *t);
AUTO_DEFINE(trial, struct trial *, trial_free)

/* Sets why the trial was stopped or requeued, from the word of a record; NULL: no reason. */
void trial_set_stop_word(struct trial *t, const char *word);
/* That word; NULL: no reason. Borrowed until it is set again. */
const char *trial_stop_word(const struct trial *t);

/* What a report of the last lease means. `values` are numbers as json_number() writes them;
 * `metric` is the sweep's (NULL: it has none). The first report of a new lease drops what earlier
 * leases reported from its step on: the trial went on from a checkpoint, or from the start. A step
 * that was reported before is replaced. */
void trial_report(struct trial *t, double step, const json_t *values, const char *metric,
                  bool maximize);

/* Whether that report was there before, so that it adds nothing: a message that came twice. */
bool trial_repeated(const struct trial *t, double step, const json_t *values, const char *metric);

/* The step of a report that says none: how many there were under this lease. */
double trial_next_step(const struct trial *t);

/* The value that counts: the best, or the last; NAN: none yet. */
double trial_value(const struct trial *t, bool last);

/* How many points have a step <= `step`. */
size_t trial_points_until(const struct trial *t, double step);
/* The mean of the first n points, 0 < n <= point_count. Each is computed once; who never asks pays
 * no memory for it. */
double trial_mean(const struct trial *t, size_t n);

struct trial_view { /* all trials of a sweep, in the order of their ids */
    const struct trial *const *trials;
    size_t count;
};

#endif
