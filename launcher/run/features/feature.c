#include "launcher/run/features/feature.h"

#include <assert.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

#include "common/command.h"

/* The features are opened and called, and observe the job, in this order. `spares` chooses the
 * nodes that `preflight` measures, which forks, and so precedes all threads. `mismatch` reads where
 * the ranks are before others do anything, and `events` records what the others report. `usage`
 * knows the GPUs that `metrics` and `idle` look at, and `events` and `report` contain what it has
 * found. `run_log` stores what the others report. `hang` needs to know if there are limits of
 * `sections`. `redirect` writes a line before the console asks if the line is shown, too. `metrics`
 * may wait when all others have finished. */
static const struct feature *const rows[] = {
    &feature_spares,   &feature_preflight, &feature_mismatch,   &feature_usage,    &feature_events,
    &feature_finite,   &feature_budget,    &feature_baseline,   &feature_idle,     &feature_report,
    &feature_sections, &feature_hang,      &feature_stragglers, &feature_redirect, &feature_run_log,
    &feature_notify,   &feature_metrics,
};

/* Calls the function `fn` of each feature that has a state and this function. */
#define CALL_EACH(r, fn, ...)                   \
    for (size_t i = 0; i < COUNT_OF(rows); i++) \
        if ((r)->state[i] && rows[i]->fn)       \
    rows[i]->fn((r)->state[i], __VA_ARGS__)

/* ---- causes --------------------------------------------------------------------------------- */

static const struct {
    int status;        /* exit status of the job if all ranks exited with status 0 … */
    bool over_failure; /* … or also if one has failed */
} causes[FEATURE_CAUSES] = {
    [FEATURE_CAUSE_OUTPUT] = {128 + SIGPIPE, true}, /* as if SIGPIPE had ended drover */
    [FEATURE_CAUSE_LIMIT] = {JOB_LIMITS_STATUS, false},
    [FEATURE_CAUSE_NOT_FINITE] = {EXIT_STATUS_FAILED, false},
    [FEATURE_CAUSE_IDLE] = {JOB_LIMITS_STATUS, false},
    [FEATURE_CAUSE_HANG] = {JOB_LIMITS_STATUS, false},
    [FEATURE_CAUSE_SIGNAL] = {0, false},
};

int feature_cause_status(enum feature_cause cause)
{
    return causes[cause].status;
}

int feature_status(unsigned set, const struct job_end *end, int sig)
{
    int first = set ? __builtin_ctz(set) : FEATURE_CAUSE_SIGNAL;
    if (causes[first].over_failure || (end->first_failed < 0 && causes[first].status))
        return causes[first].status;
    return end->first_failed < 0 && sig && end->status ? 128 + sig : end->status;
}

bool feature_is_final(unsigned set)
{
    return set & ~(1U << FEATURE_CAUSE_HANG);
}

/* ---- before the job ------------------------------------------------------------------------- */

int feature_check(struct feature_settings *set, struct launch_spec *spec, struct err *e)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int rc = rows[i]->check ? rows[i]->check(set, spec, e) : 1;
        if (rc < 0)
            return rc;
        set->asked |= (unsigned)rc << i;
    }
    return 0;
}

int feature_admit(int *status, const struct feature_run *r, struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < COUNT_OF(rows) && rc == 0 && *status == 0; i++)
        rc = rows[i]->admit ? rows[i]->admit(status, r, e) : 0;
    return rc;
}

struct head { /* of every state */
    FEATURE_STATE;
};

static void new_state(struct feature_run *r, size_t i)
{
    struct head *state = xzalloc(rows[i]->size);
    *state = (struct head){r, &r->timer[i]};
    r->state[i] = r->timer[i].data = state;
}

int feature_open(struct feature_run *r, struct err *e)
{
    static_assert(COUNT_OF(rows) <= FEATURES_MAX, "a feature has no place for its state");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (!(r->set->asked & 1U << i))
            continue;
        uv_timer_init(r->loop, &r->timer[i]);
        new_state(r, i);
        int rc = rows[i]->open ? rows[i]->open(r->state[i], e) : 0;
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- the job -------------------------------------------------------------------------------- */

int feature_prepare(struct feature_run *r, struct err *e)
{
    int rc = 0;
    r->causes &= ~(1U << FEATURE_CAUSE_HANG);
    r->stopped_by = 0;
    for (size_t i = 0; i < COUNT_OF(rows) && rc == 0; i++)
        rc = r->state[i] && rows[i]->prepare ? rows[i]->prepare(r->state[i], e) : 0;
    return rc;
}

void feature_attach(struct feature_run *r, struct launch *job)
{
    static const struct launch_events none;
    r->job = job;
    r->plan = launch_plan(job);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (r->state[i] && rows[i]->attach)
            rows[i]->attach(r->state[i]);
        if (r->state[i] && memcmp(&rows[i]->events, &none, sizeof none) != 0)
            launch_observe(r->job, &rows[i]->events, r->state[i]);
    }
}

bool feature_shows(const struct feature_run *r, int rank, enum launch_stream from)
{
    bool shown = true;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (r->state[i] && rows[i]->shows)
            shown &= rows[i]->shows(r->state[i], rank, from);
    return shown;
}

void feature_ended(struct feature_run *r, const struct job_end *end, int status)
{
    CALL_EACH(r, ended, end, status);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (!r->state[i])
            continue;
        uv_timer_stop(&r->timer[i]);
        if (rows[i]->once) {
            free(r->state[i]);
            new_state(r, i);
        }
    }
}

void feature_explain(struct feature_run *r, struct strbuf *b)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (r->stopped_by & 1U << i && rows[i]->explain)
            rows[i]->explain(r->state[i], b);
}

void feature_finish(struct feature_run *r, int status)
{
    CALL_EACH(r, finish, status);
}

void feature_close(struct feature_run *r)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (!r->state[i])
            continue;
        if (rows[i]->close)
            rows[i]->close(r->state[i]);
        uv_close((uv_handle_t *)&r->timer[i], NULL);
    }
}

void feature_free(struct feature_run *r)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        free(r->state[i]);
    json_decref(r->failed_gpu);
    strbuf_free(&r->usage);
    strbuf_free(&r->failure);
}

/* ---- what features do ----------------------------------------------------------------------- */

void feature_stop(void *state)
{
    const struct head *h = state;
    size_t row = (size_t)(h->timer - h->run->timer);
    h->run->stopped_by |= 1U << row;
    h->run->stop(h->run->arg, rows[row]->cause);
}

void feature_say(const struct feature_run *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    AUTO(free) char *text = xvasprintf(fmt, ap);
    va_end(ap);
    AUTO(free) char *line = xasprintf("%s: %s\n", r->program, text);
    r->print(r->arg, line);
}

void feature_record(struct feature_run *r, const char *event, json_t *fields)
{
    CALL_EACH(r, record, event, fields);
    json_decref(fields);
}

void feature_leave_out(struct feature_run *r, const char *node, const char *reason, bool now)
{
    CALL_EACH(r, leave_out, node, reason, now);
}

char **feature_mpirun_env(const struct launch_spec *s)
{
    char **env = NULL;
    for (char *const *v = s->env; v && *v; v++)
        if (strncmp(*v, "OMPI_MCA_", 9) == 0)
            strv_push(&env, xstrdup(*v));
    return env;
}

void feature_write_rank(struct strbuf *b, const struct plan *p, int rank)
{
    const struct plan_rank *r = &p->ranks[rank];
    strbuf_printf(b, "rank %d on %s", p->first_rank + rank, p->nodes[r->node].name);
    if (r->gpu >= 0)
        strbuf_printf(b, " (GPU %d)", r->gpu);
}

json_t *feature_rank_json(const struct plan *p, int rank)
{
    const struct plan_rank *r = &p->ranks[rank];
    return json_pack("{s:i, s:o, s:o}", "rank", p->first_rank + rank, "node",
                     json_text(p->nodes[r->node].name), "gpu",
                     r->gpu >= 0 ? json_integer(r->gpu) : json_null());
}
