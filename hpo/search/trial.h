/* trial - one set of parameters being tried: its states, and what is known about it. */
#ifndef DROVER_TRIAL_H
#define DROVER_TRIAL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"

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
    TRIAL_EV_REPORT,  /* a report of its present lease */
    TRIAL_EV_STOP,    /* it is to end (early stopping, time-out, the user) */
    TRIAL_EV_PAUSE,   /* it is to end, and to be leased again later */
    TRIAL_EV_REQUEUE, /* its lease is void and it waits again: lost, preempted, drained, retried */
    TRIAL_EV_PAUSED,  /* a pausing trial's processes have ended */
    TRIAL_EV_END,     /* it has come to one of the ends */
    TRIAL_EVENTS
};

/* The state after `ev`; TRIAL_STATES for TRIAL_EV_END ("one of the ends"); -1: means nothing here.
 */
int trial_step(enum trial_state s, enum trial_event ev);

bool trial_ended(enum trial_state s);
/* Whether a worker holds it. */
bool trial_out(enum trial_state s);
/* "waiting", "done", … */
const char *trial_state_name(enum trial_state s);
/* -1: no such state */
int trial_state_parse(const char *name);

struct trial_point {
    double step;
    double value; /* finite */
    double mean;  /* of this and the values before it */
};

struct trial {
    int id;
    enum trial_state state;
    json_t *params;
    int64_t lease;       /* the last one given; 0: none yet */
    int64_t lease_first; /* first lease of the points below */
    char *worker, *node; /* of the last lease; NULL: none yet */
    char *why;           /* of the last STOPPING or REQUEUED; NULL: none */
    int tries_spent;     /* REQUEUED records that count against the retries */

    struct trial_point *points; /* the sweep's metric, finite values only, by rising step */
    size_t point_count, point_cap;
    int lease_reports; /* of the sweep's metric under the present lease: the step where none is said
                        */
    double best;       /* of the points; NAN: none */
    json_t *metrics;   /* name -> last value, of every metric that was reported */

    int64_t created_ms, leased_ms, stopping_ms, ended_ms; /* 0: has not happened */
    double seconds;                                       /* of run time, as its worker measured */
    char *error;                                          /* NULL: none */
};

struct trial *trial_new(int id, json_t *params, int64_t now_ms); /* takes a reference */
void trial_free(struct trial *t);
AUTO_DEFINE(trial, struct trial *, trial_free)

#endif
