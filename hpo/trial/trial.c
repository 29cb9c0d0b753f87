#include "hpo/trial/trial.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "common/json.h"

/* ---- states --------------------------------------------------------------------------------- */

#define ROW(...) STATES_ROW(TRIAL, __VA_ARGS__)
static const struct states_row rows[] = {
    ROW(WAITING, LEASE, LEASED),
    ROW(WAITING, REPORT, WAITING), /* its lost worker has reconnected */
    ROW(WAITING, END, STATES),     /* as above, or the trial is cancelled */
    ROW(LEASED, REPORT, RUNNING),
    ROW(LEASED, STOP, STOPPING),
    ROW(LEASED, PAUSE, PAUSING),
    ROW(LEASED, REQUEUE, WAITING),
    ROW(LEASED, END, STATES),
    ROW(RUNNING, REPORT, RUNNING),
    ROW(RUNNING, STOP, STOPPING),
    ROW(RUNNING, PAUSE, PAUSING),
    ROW(RUNNING, REQUEUE, WAITING), /* the worker is lost or preempts it */
    ROW(RUNNING, END, STATES),
    ROW(STOPPING, REPORT, STOPPING),
    ROW(STOPPING, STOP, STOPPING),   /* now to be cancelled, by the user */
    ROW(STOPPING, REQUEUE, WAITING), /* after a drain, pause or preemption */
    ROW(STOPPING, END, STATES),
    ROW(PAUSING, REPORT, PAUSING),
    ROW(PAUSING, STOP, STOPPING),
    ROW(PAUSING, REQUEUE, WAITING),
    ROW(PAUSING, PAUSED, PAUSED),
    ROW(PAUSING, END, STATES),
    ROW(PAUSED, REPORT, PAUSED), /* its lost worker has reconnected */
    ROW(PAUSED, LEASE, LEASED),
    ROW(PAUSED, END, STATES),
    ROW(FAILED, RETRY, WAITING), /* no RETRY if it has a value … */
    ROW(OOM, RETRY, WAITING),    /* … or was judged by a value */
    ROW(INVALID, RETRY, WAITING),
    ROW(CANCELLED, RETRY, WAITING),
};

const struct states trial_states = STATES_TABLE(rows);

bool trial_is_ended(enum trial_state s)
{
    return s >= TRIAL_DONE;
}

bool trial_has_signal(enum trial_state s)
{
    return !trial_is_ended(s) || s == TRIAL_DONE || s == TRIAL_PRUNED;
}

bool trial_is_active(enum trial_state s)
{
    return s >= TRIAL_LEASED && s <= TRIAL_PAUSING;
}

static const char *const names[TRIAL_STATES] = {
    "waiting", "leased", "running", "stopping", "pausing", "paused",
    "done",    "pruned", "failed",  "oom",      "invalid", "cancelled",
};

const char *trial_state_name(enum trial_state s)
{
    return names[s];
}

int trial_state_parse(const char *name)
{
    for (int s = 0; s < TRIAL_STATES; s++)
        if (strcmp(name, names[s]) == 0)
            return s;
    return -1;
}

/* ---- a trial -------------------------------------------------------------------------------- */

struct trial_means {
    double *at; /* at[i]: the mean of points 0 … i */
    size_t count, cap;
};

struct trial *trial_new(int id, json_t *params, int64_t now_ms)
{
    struct trial *t = xzalloc(sizeof *t);
    t->id = id;
    t->params = json_incref(params);
    t->created_ms = now_ms;
    t->metrics = json_object();
    t->means = xzalloc(sizeof *t->means);
    t->resumed_at = -INFINITY;
    trial_curve_init(&t->curve);
    return t;
}

void trial_free(struct trial *t)
{
    if (!t)
        return;
    json_decref(t->params);
    json_decref(t->metrics);
    json_decref(t->gang_workers);
    free(t->worker);
    free(t->node);
    free(t->stopper);
    free(t->error);
    trial_curve_clear(&t->curve);
    free(t->means->at);
    free(t->means);
    free(t);
}

void trial_set_stop_word(struct trial *t, const char *word)
{
    free(t->stopper);
    t->stop_reason = stop_reason_parse(word);
    t->stopper = t->stop_reason == STOP_REASON_EARLY ? xstrdup(word) : NULL;
}

const char *trial_stop_word(const struct trial *t)
{
    return t->stopper ? t->stopper : stop_reason_word(t->stop_reason);
}

/* Returns the metric's value in a report, or NAN if it is missing or not finite. */
static double finite_value(const json_t *values, const char *metric)
{
    double x = NAN;
    if (!metric || json_as_number(&x, json_object_get(values, metric)) < 0)
        return NAN;
    return isfinite(x) ? x : NAN;
}

/* Removes the stored means from point i on. */
static void drop_means(struct trial *t, size_t i)
{
    if (t->means->count > i)
        t->means->count = i;
}

double trial_mean(const struct trial *t, size_t n)
{
    struct trial_means *m = t->means;
    assert(n > 0 && n <= t->curve.count);
    if (m->cap < n) {
        m->cap = t->curve.count;
        m->at = xrealloc(m->at, m->cap, sizeof *m->at);
    }
    for (; m->count < n; m->count++) {
        double before = m->count ? m->at[m->count - 1] : 0;
        m->at[m->count] =
            before + (t->curve.points[m->count].value - before) / (double)(m->count + 1);
    }
    return m->at[n - 1];
}

void trial_report(struct trial *t, double step, const json_t *values, const char *metric,
                  bool maximize)
{
    json_object_update(t->metrics, (json_t *)values); /* which only reads `values` */
    if (metric && !json_object_get(values, metric))
        return;
    if (t->points_lease != t->lease) {
        trial_curve_cut(&t->curve, step, maximize);
        drop_means(t, t->curve.count);
        t->points_lease = t->lease;
        t->last_step = -INFINITY;
        t->lease_reports = 0;
    }
    double x = finite_value(values, metric);
    if (!isnan(x))
        drop_means(t, trial_curve_put(&t->curve, step, x, maximize));
    t->lease_reports++;
    t->diverged = isnan(x);
    t->last_step = fmax(t->last_step, step);
}

bool trial_repeated(const struct trial *t, double step, const json_t *values, const char *metric)
{
    size_t n = trial_curve_until(&t->curve, step);
    if (!metric || t->points_lease != t->lease || t->curve.newest != step || n == 0 ||
        t->curve.points[n - 1].value != finite_value(values, metric))
        return false;
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach ((json_t *)values, name, value) /* the macro rejects const pointers */
        if (!json_equal(json_object_get(t->metrics, name), value))
            return false;
    return true;
}

double trial_next_step(const struct trial *t)
{
    return t->points_lease == t->lease ? t->lease_reports : 0;
}

double trial_value(const struct trial *t, bool last)
{
    return last ? t->curve.last : t->curve.best;
}
