/* worker_health - decides whether a worker gets trials after faults that are its own: a directory
 * that it cannot make, a process that it cannot start, a disk that is full.
 *
 * After each fault the worker gets no trial for a time, which doubles with each failure in a row.
 * After WORKER_HEALTH_FAULTS_MAX faults it is excluded until a self-test passes, and the next trial
 * decides. A worker that has failed WORKER_HEALTH_HOPELESS times in a row, self-tests included,
 * counts as unable to start a trial; its self-tests continue. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/states.h"

enum {
    WORKER_HEALTH_FAULTS_MAX = 3,
    WORKER_HEALTH_HOPELESS = 5,
    WORKER_HEALTH_BACKOFF_MS = 500, /* after the first fault */
    WORKER_HEALTH_BACKOFF_MAX_MS = 300000,
    WORKER_HEALTH_TEST_MS = 30000 /* limit of a self-test */
};

enum worker_health_state {
    WORKER_HEALTH_GOOD,        /* the worker is not to blame for the end of its last trial */
    WORKER_HEALTH_BACKING_OFF, /* gets no trial until due_ms */
    WORKER_HEALTH_SUSPECT,     /* gets trials again; the end of the next one decides */
    WORKER_HEALTH_EXCLUDED,    /* gets no trial; its self-test is due at due_ms */
    WORKER_HEALTH_TESTING,     /* gets no trial; its self-test must have ended by due_ms */
    WORKER_HEALTH_STATES
};

enum worker_health_event {
    WORKER_HEALTH_EV_FAULT,       /* a trial ended because of the worker */
    WORKER_HEALTH_EV_LAST_FAULT,  /* the same; it has as many faults in a row as are allowed */
    WORKER_HEALTH_EV_SUCCESS,     /* a trial was started, and has ended for another reason */
    WORKER_HEALTH_EV_DUE,         /* due_ms has passed */
    WORKER_HEALTH_EV_TEST_PASSED, /* the self-test */
    WORKER_HEALTH_EV_TEST_FAILED,
    WORKER_HEALTH_EV_RECONNECTED, /* the request or the result of a self-test may be lost */
    WORKER_HEALTH_EVENTS
};

struct worker_health { /* all zeroes: GOOD */
    enum worker_health_state state;
    int failures;     /* faults and failed self-tests since the last success */
    int64_t since_ms; /* time of the first of them */
    int64_t due_ms;   /* deadline of the states BACKING_OFF, EXCLUDED and TESTING */
    char *cause;      /* of the last failure; kept after a success; NULL: there was none */
};

extern const struct states worker_health_states;
/* Returns a word for users and programs: "good", "backing off", … */
const char *worker_health_state_name(enum worker_health_state s);

/* Each function returns true if the state has changed or a failure was counted. A fault that occurs
 * while the worker gets no trials is of an earlier trial: it sets only the cause. */
bool worker_health_fault(struct worker_health *h, const char *cause, int64_t now_ms);
bool worker_health_success(struct worker_health *h);
bool worker_health_reconnected(struct worker_health *h, int64_t now_ms);
/* `cause`: why the self-test failed; NULL: it passed. */
bool worker_health_tested(struct worker_health *h, const char *cause, int64_t now_ms);
/* Must be called when due_ms has passed. Then a self-test must be requested if the state is
 * TESTING. */
bool worker_health_tick(struct worker_health *h, int64_t now_ms);
void worker_health_clear(struct worker_health *h);

/* Returns the time of the next worker_health_tick(); INT64_MAX: none is needed. */
int64_t worker_health_deadline(const struct worker_health *h);
bool worker_health_gets_trials(const struct worker_health *h);
bool worker_health_is_hopeless(const struct worker_health *h);
