#include "hpo/scheduler/worker_health.h"

#include <stdlib.h>

#include "common/mem.h"

#define ROW(...) STATES_ROW(WORKER_HEALTH, __VA_ARGS__)
static const struct states_row rows[] = {
    ROW(GOOD, FAULT, BACKING_OFF),        ROW(GOOD, SUCCESS, GOOD),
    ROW(BACKING_OFF, FAULT, BACKING_OFF), ROW(BACKING_OFF, LAST_FAULT, BACKING_OFF),
    ROW(BACKING_OFF, DUE, SUSPECT),       ROW(SUSPECT, FAULT, BACKING_OFF),
    ROW(SUSPECT, LAST_FAULT, EXCLUDED),   ROW(SUSPECT, SUCCESS, GOOD),
    ROW(EXCLUDED, LAST_FAULT, EXCLUDED),  ROW(EXCLUDED, DUE, TESTING),
    ROW(TESTING, LAST_FAULT, TESTING),    ROW(TESTING, TEST_PASSED, SUSPECT),
    ROW(TESTING, TEST_FAILED, EXCLUDED),  ROW(TESTING, DUE, EXCLUDED),
    ROW(TESTING, RECONNECTED, EXCLUDED),
};

const struct states worker_health_states = STATES_TABLE(rows);

const char *worker_health_state_name(enum worker_health_state s)
{
    static const char *const names[WORKER_HEALTH_STATES] = {
        [WORKER_HEALTH_GOOD] = "good",       [WORKER_HEALTH_BACKING_OFF] = "backing off",
        [WORKER_HEALTH_SUSPECT] = "suspect", [WORKER_HEALTH_EXCLUDED] = "excluded",
        [WORKER_HEALTH_TESTING] = "testing",
    };
    return names[s];
}

static bool apply(struct worker_health *h, enum worker_health_event ev)
{
    int next = states_next(&worker_health_states, (int)h->state, (int)ev);
    if (next >= 0)
        h->state = (enum worker_health_state)next;
    return next >= 0;
}

static int64_t backoff_ms(int failures)
{
    int64_t ms = WORKER_HEALTH_BACKOFF_MS;
    for (int i = 1; i < failures && ms < WORKER_HEALTH_BACKOFF_MAX_MS; i++)
        ms *= 2;
    return ms < WORKER_HEALTH_BACKOFF_MAX_MS ? ms : WORKER_HEALTH_BACKOFF_MAX_MS;
}

static void set_cause(struct worker_health *h, const char *cause)
{
    free(h->cause);
    h->cause = xstrdup(cause);
}

static void count_failure(struct worker_health *h, const char *cause, int64_t now_ms)
{
    if (h->failures++ == 0)
        h->since_ms = now_ms;
    h->due_ms = now_ms + backoff_ms(h->failures);
    set_cause(h, cause);
}

bool worker_health_fault(struct worker_health *h, const char *cause, int64_t now_ms)
{
    bool counts = worker_health_gets_trials(h);
    bool last = h->failures + counts >= WORKER_HEALTH_FAULTS_MAX;
    if (!apply(h, last ? WORKER_HEALTH_EV_LAST_FAULT : WORKER_HEALTH_EV_FAULT))
        return false;
    if (counts)
        count_failure(h, cause, now_ms);
    else
        set_cause(h, cause);
    return counts;
}

bool worker_health_success(struct worker_health *h)
{
    bool changed = h->state != WORKER_HEALTH_GOOD && apply(h, WORKER_HEALTH_EV_SUCCESS);
    if (changed)
        h->failures = 0;
    return changed;
}

bool worker_health_reconnected(struct worker_health *h, int64_t now_ms)
{
    bool changed = apply(h, WORKER_HEALTH_EV_RECONNECTED);
    if (changed)
        h->due_ms = now_ms; /* the self-test is requested again */
    return changed;
}

bool worker_health_tested(struct worker_health *h, const char *cause, int64_t now_ms)
{
    bool changed = apply(h, cause ? WORKER_HEALTH_EV_TEST_FAILED : WORKER_HEALTH_EV_TEST_PASSED);
    if (changed && cause)
        count_failure(h, cause, now_ms);
    return changed;
}

bool worker_health_tick(struct worker_health *h, int64_t now_ms)
{
    if (worker_health_deadline(h) > now_ms || !apply(h, WORKER_HEALTH_EV_DUE))
        return false;
    if (h->state == WORKER_HEALTH_TESTING)
        h->due_ms = now_ms + WORKER_HEALTH_TEST_MS;
    else if (h->state == WORKER_HEALTH_EXCLUDED)
        count_failure(h, "its self-test did not end in time", now_ms);
    return true;
}

void worker_health_clear(struct worker_health *h)
{
    free(h->cause);
    *h = (struct worker_health){0};
}

int64_t worker_health_deadline(const struct worker_health *h)
{
    bool waits = h->state == WORKER_HEALTH_BACKING_OFF || h->state == WORKER_HEALTH_EXCLUDED ||
                 h->state == WORKER_HEALTH_TESTING;
    return waits ? h->due_ms : INT64_MAX;
}

bool worker_health_gets_trials(const struct worker_health *h)
{
    return h->state == WORKER_HEALTH_GOOD || h->state == WORKER_HEALTH_SUSPECT;
}

bool worker_health_is_hopeless(const struct worker_health *h)
{
    return h->failures >= WORKER_HEALTH_HOPELESS && !worker_health_gets_trials(h);
}
