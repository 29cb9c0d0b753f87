/* scheduler_events - one handler per kind of event. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "common/utf8.h"
#include "hpo/scheduler/scheduler_internal.h"
#include "hpo/trial/metric_guess.h"

/* ---- trials end, stop, are requeued --------------------------------------------------------- */

void scheduler_end_trial(struct event_context *ctx, const struct trial *t, enum trial_state state,
                         double seconds, char *error)
{
    AUTO(free) char *text = error;
    double value = state == TRIAL_INVALID ? NAN : trial_value(t, ctx->s->spec->value_last);
    json_t *data = json_pack("{s:s, s:f}", "state", trial_state_name(state), "seconds", seconds);
    json_object_set_new(data, "value", isnan(value) ? json_null() : json_real(value));
    if (text)
        json_object_set_new(data, "error", json_string(text));
    if ((t->state == TRIAL_STOPPING || t->state == TRIAL_PAUSED) && state != TRIAL_DONE)
        json_object_set_new(data, "why", json_string(trial_stop_word(t)));
    if (trial_has_signal(state) && !isnan(value))
        scheduler_reports_end(ctx, t);
    scheduler_emit_record(ctx, SCHEDULER_REC_ENDED, t, t->lease, data);
}

/* Requeues the trial. `spent`: this is a retry; if no retries are left, the trial ends as failed.
 * Takes the ownership of `error` (NULL: none). */
static void requeue(struct event_context *ctx, struct trial *t, enum stop_reason reason, bool spent,
                    char *error)
{
    AUTO(free) char *text = error;
    int retries = ctx->s->spec->retries;
    if (spent && t->tries_spent >= retries) {
        scheduler_end_trial(ctx, t, TRIAL_FAILED, 0,
                            text ? TAKE(text)
                                 : xasprintf("%s after %d retr%s", stop_reason_text(reason),
                                             t->tries_spent, t->tries_spent == 1 ? "y" : "ies"));
        return;
    }
    json_t *data = json_pack("{s:s, s:b}", "why", stop_reason_word(reason), "spent", spent);
    if (text)
        json_object_set_new(data, "error", json_string(text));
    scheduler_emit_record(ctx, SCHEDULER_REC_REQUEUED, t, t->lease, data);
}

static void send_stop(struct event_context *ctx, const struct trial *t)
{
    const struct worker *w = scheduler_find_worker(ctx->s, t->worker);
    bool now = ctx->s->st.asked.stopped && ctx->s->st.asked.now;
    if (w->link != WORKER_LINK_ABSENT)
        scheduler_emit_action(ctx, now ? SCHEDULER_ACT_KILL : SCHEDULER_ACT_STOP, w->id, t->id,
                              t->lease, trial_stop_word(t));
}

static bool is_stopping(const struct trial *t)
{
    return t->state == TRIAL_STOPPING || t->state == TRIAL_PAUSING;
}

static void lose_lease(struct event_context *ctx, struct trial *t, const struct worker *by,
                       bool ran);

/* Tells a trial to stop. `kind` is STOPPING or PAUSING. `word` is that of the stop reason, or the
 * name of an early stopper. */
static void stop_trial(struct event_context *ctx, enum scheduler_record_kind kind, struct trial *t,
                       const char *word)
{
    scheduler_emit_record(ctx, kind, t, t->lease, json_pack("{s:s}", "why", word));
    if (scheduler_gang_is_pending(ctx->s, t))
        lose_lease(ctx, t, NULL, false); /* it is not running yet */
    else
        send_stop(ctx, t);
}

/* Handles a trial that was told to stop and has ended, or whose worker was lost after that. */
static void end_stopped(struct event_context *ctx, struct trial *t, double seconds)
{
    switch (t->stop_reason) {
    case STOP_REASON_DRAIN:
    case STOP_REASON_PAUSE:
        requeue(ctx, t, t->stop_reason, false, NULL);
        return;
    case STOP_REASON_PREEMPTED:
        requeue(ctx, t, t->stop_reason, true, NULL);
        return;
    case STOP_REASON_STOP:
        scheduler_end_trial(ctx, t, TRIAL_CANCELLED, seconds, NULL);
        return;
    case STOP_REASON_TIMEOUT:
        scheduler_end_trial(ctx, t, TRIAL_FAILED, seconds,
                            xasprintf("ran longer than the timeout of %.15g s",
                                      (double)ctx->s->spec->timeout_ms / 1e3));
        return;
    default: /* an early stopper */
        scheduler_end_trial(ctx, t, TRIAL_PRUNED, seconds, NULL);
    }
}

/* Handles a trial that was told to pause and has ended, or whose worker was lost after that. */
static void pause_trial(struct event_context *ctx, struct trial *t, double seconds)
{
    scheduler_emit_record(ctx, SCHEDULER_REC_PAUSED, t, t->lease,
                          json_pack("{s:f}", "seconds", seconds));
}

/* Makes the trial's lease void. `by` is the worker that lost the lease; NULL: none. If another
 * worker runs the trial, that worker gets a STOP. `ran`: the trial was running and may be the
 * cause, so it spends a retry. */
static void lose_lease(struct event_context *ctx, struct trial *t, const struct worker *by,
                       bool ran)
{
    const struct worker *runs = scheduler_find_worker(ctx->s, t->worker);
    if (by && runs != by && runs->link != WORKER_LINK_ABSENT &&
        !scheduler_gang_is_pending(ctx->s, t))
        scheduler_emit_action(ctx, SCHEDULER_ACT_STOP, runs->id, t->id, t->lease,
                              "this lease is void");
    if (t->state == TRIAL_STOPPING)
        end_stopped(ctx, t, t->seconds);
    else if (t->state == TRIAL_PAUSING)
        pause_trial(ctx, t, t->seconds);
    else
        requeue(ctx, t, STOP_REASON_LOST, ran, NULL);
}

/* ---- workers -------------------------------------------------------------------------------- */

/* Returns the ids of the trials for which the worker has a lease, and sets `*count` to their
 * number. The caller frees the array. */
static int *trials_of(const struct scheduler *s, const struct worker *w, size_t *count)
{
    int *ids = xcalloc((size_t)w->busy + 1, sizeof *ids);
    *count = 0;
    for (size_t i = 0; i < s->st.active_count && *count < (size_t)w->busy; i++)
        if (scheduler_gang_has_worker(w, s->st.trials[s->st.active[i]]))
            ids[(*count)++] = s->st.active[i];
    return ids;
}

static void lose_worker(struct event_context *ctx, struct worker *w)
{
    size_t n = 0;
    AUTO(free) int *ids = trials_of(ctx->s, w, &n);
    scheduler_worker_step(ctx->s, w, WORKER_LINK_EV_LOST);
    scheduler_worker_settled(ctx->s, w);
    for (size_t i = 0; i < n; i++) {
        struct trial *t = ctx->s->st.trials[ids[i]];
        lose_lease(ctx, t, w, !scheduler_gang_is_pending(ctx->s, t));
    }
}

/* Returns true if `lease` is among the first n entries of `running`. */
static bool contains(const json_t *running, size_t n, int64_t lease)
{
    for (size_t i = 0; i < n; i++)
        if (json_integer_value(json_array_get(running, i)) == lease)
            return true;
    return false;
}

/* Handles a lease that a worker lists as running. Returns true if it is valid. */
static bool claim_lease(struct event_context *ctx, const struct worker *w, int64_t lease)
{
    const struct trial *t = sweep_state_leased(&ctx->s->st, lease);
    bool valid =
        t && t->lease == lease && trial_is_active(t->state) && scheduler_gang_has_worker(w, t);
    if (!valid)
        scheduler_emit_action(ctx, SCHEDULER_ACT_STOP, w->id, t ? t->id : -1, lease,
                              "this lease is void");
    else if (is_stopping(t))
        send_stop(ctx, t); /* the worker may not have received the STOP */
    return valid;
}

static int on_hello(struct event_context *ctx, const struct scheduler_event *ev, struct err *e)
{
    int64_t slots = 0;
    const char *node = NULL;
    if (!ev->worker || json_require_int(&slots, ev->data, "slots", e) < 0 ||
        json_optional_str(&node, ev->data, "node", e) < 0)
        return -EINVAL;
    const json_t *running = json_object_get(ev->data, "running");
    if (!utf8_valid(ev->worker)) /* records could not contain it */
        return err_set(e, -EINVAL, "hello: the worker's id is not UTF-8");
    if (slots < 0 || slots > INT_MAX || (running && !json_is_array(running)))
        return err_set(e, -EINVAL, "hello: invalid 'slots' or 'running'");
    struct worker *w = scheduler_add_worker(ctx->s, ev->worker);
    free(w->node);
    w->node = node ? xstrdup(node) : NULL;
    w->slots = (int)slots;
    scheduler_worker_settled(ctx->s, w);
    scheduler_health_reconnected(ctx, w);
    scheduler_worker_step(ctx->s, w, WORKER_LINK_EV_HELLO);
    size_t listed = json_array_size(running), has = 0, n = 0;
    for (size_t i = 0; i < listed; i++) {
        int64_t lease = json_integer_value(json_array_get(running, i));
        has += claim_lease(ctx, w, lease) && !contains(running, i, lease);
    }
    if (has == (size_t)w->busy)
        return 0; /* usual for a renewed connection; saves a pass over all trials */
    AUTO(free) int *ids = trials_of(ctx->s, w, &n);
    for (size_t i = 0; i < n; i++) {
        struct trial *t = ctx->s->st.trials[ids[i]];
        bool runs = strcmp(t->worker, w->id) == 0;
        if (contains(running, listed, t->lease) || (runs && scheduler_gang_is_pending(ctx->s, t)))
            continue;
        /* The worker did not receive the RUN. If the RUN still arrives, the STOP follows it. */
        scheduler_emit_action(ctx, SCHEDULER_ACT_STOP, w->id, t->id, t->lease,
                              "this lease is void");
        lose_lease(ctx, t, w, false);
    }
    return 0;
}

/* Handles a new number of slots. An unknown worker is ignored: its hello will have the number. */
static int on_slots(struct event_context *ctx, const struct scheduler_event *ev, struct err *e)
{
    int64_t slots = 0;
    if (json_require_int(&slots, ev->data, "slots", e) < 0)
        return -EINVAL;
    if (slots < 0 || slots > INT_MAX)
        return err_set(e, -EINVAL, "invalid 'slots'");
    struct worker *w = scheduler_find_worker(ctx->s, ev->worker);
    if (!w)
        return 0;
    w->slots = (int)slots;
    scheduler_worker_step(ctx->s, w, WORKER_LINK_EV_ANSWERED);
    return 0;
}

static void on_revoked(struct event_context *ctx, const struct scheduler_event *ev)
{
    const struct worker *w = scheduler_find_worker(ctx->s, ev->worker);
    struct trial *t = sweep_state_leased(&ctx->s->st, ev->lease);
    if (!w || !t || t->lease != ev->lease || !trial_is_active(t->state) ||
        !scheduler_gang_has_worker(w, t))
        return;
    if (scheduler_gang_is_pending(ctx->s, t))
        requeue(ctx, t, STOP_REASON_PREEMPTED, false, NULL);
    else if (!is_stopping(t))
        stop_trial(ctx, SCHEDULER_REC_STOPPING, t, stop_reason_word(STOP_REASON_PREEMPTED));
}

static int on_lost(struct event_context *ctx, const struct scheduler_event *ev)
{
    struct worker *w = scheduler_find_worker(ctx->s, ev->worker);
    if (w)
        lose_worker(ctx, w);
    return 0;
}

static int on_leaving(struct event_context *ctx, const struct scheduler_event *ev)
{
    struct worker *w = scheduler_find_worker(ctx->s, ev->worker);
    if (!w)
        return 0;
    scheduler_worker_step(ctx->s, w, WORKER_LINK_EV_GOES);
    return 0;
}

/* ---- reports -------------------------------------------------------------------------------- */

/* Returns the numbers of a report that have a name, without its step (new reference). */
static json_t *numbers_of(const json_t *data)
{
    json_t *values = json_object();
    const char *name = NULL;
    json_t *value = NULL;
    double x = 0;
    json_object_foreach ((json_t *)data, name, value) /* the macro rejects const pointers */
        if (*name && strcmp(name, "step") != 0 && json_as_number(&x, value) == 0)
            json_object_set(values, name, value);
    return values;
}

static int on_report(struct event_context *ctx, const struct scheduler_event *ev, struct err *e)
{
    if (!json_is_object(ev->data))
        return err_set(e, -EINVAL, "the report is not a mapping");
    struct scheduler *s = ctx->s;
    struct trial *t = sweep_state_leased(&s->st, ev->lease);
    if (!t || t->lease != ev->lease || states_next(&trial_states, t->state, TRIAL_EV_REPORT) < 0)
        return 0;
    AUTO(json) json_t *values = numbers_of(ev->data);
    double step = 0;
    if (json_as_number(&step, json_object_get(ev->data, "step")) < 0 || !(fabs(step) < STEPS))
        step = trial_next_step(t);
    bool told = scheduler_reports_dropped(ctx, t, ev->data);
    if (json_object_size(values) > 0 &&
        !trial_repeated(t, step, values, s->spec->metrics[0].name)) {
        if (!told)
            scheduler_reports_check(ctx, t, step, values);
        json_t *exact = step == rint(step) && fabs(step) < 1e15 ? json_integer((json_int_t)step)
                                                                : json_real(step);
        scheduler_emit_record(ctx, SCHEDULER_REC_REPORT, t, t->lease,
                              json_pack("{s:o, s:O}", "step", exact, "values", values));
        enum stopper_verdict verdict = scheduler_judge_report(s, t);
        if (verdict != STOPPER_CONTINUE) {
            stop_trial(ctx,
                       verdict == STOPPER_STOP ? SCHEDULER_REC_STOPPING : SCHEDULER_REC_PAUSING, t,
                       stopper_name(s->stopper));
            return 0;
        }
    }
    if (is_stopping(t))
        send_stop(ctx, t); /* the worker may not have received the STOP */
    return 0;
}

/* ---- ends of jobs --------------------------------------------------------------------------- */

struct job_end { /* DONE's data */
    int64_t status, signal;
    bool oom, preempted, stopped;
    bool unstarted;     /* no process was started, so requeueing costs no retry */
    int64_t node_fault; /* the node of the gang that ended it; -1: none */
    double seconds;
    const char *error; /* NULL: none; of a success: why a metric may be missing */
};

static int read_job_end(struct job_end *d, const json_t *data, struct err *e)
{
    *d = (struct job_end){.stopped = true, .node_fault = -1};
    if (json_optional_int(&d->status, data, "status", e) < 0 ||
        json_optional_int(&d->signal, data, "signal", e) < 0 ||
        json_optional_bool(&d->oom, data, "oom", e) < 0 ||
        json_optional_bool(&d->preempted, data, "preempted", e) < 0 ||
        json_optional_bool(&d->stopped, data, "stopped", e) < 0 ||
        json_optional_bool(&d->unstarted, data, "not_started", e) < 0 ||
        json_optional_int(&d->node_fault, data, "node_fault", e) < 0 ||
        json_optional_real(&d->seconds, data, "seconds", e) < 0)
        return -EINVAL;
    return json_optional_str(&d->error, data, "error", e);
}

static bool succeeded(const struct job_end *d)
{
    return d->status == 0 && d->signal == 0 && !d->oom && !d->preempted;
}

static char *failure_text(const struct job_end *d)
{
    if (d->error && d->error[0])
        return xstrdup(d->error);
    if (d->oom)
        return xstrdup("out of memory");
    if (d->signal)
        return xasprintf("killed by signal %d (%s)", (int)d->signal, strsignal((int)d->signal));
    return xasprintf("exit status %d", (int)d->status);
}

/* Returns why a trial without a finite value of the metric is invalid. The caller frees the text.
 */
static char *invalid_text(const struct trial *t, const char *metric, bool wandb_real)
{
    if (json_object_get(t->metrics, metric))
        return xasprintf("no value of the metric '%s' was finite", metric);
    AUTO(strbuf) struct strbuf b = {0};
    metric_guess_unreported(&b, metric, t->metrics);
    if (wandb_real)
        strbuf_puts(
            &b, "; with `wandb: real`, wandb.log() reports to W&B only: call drover.report() too");
    return strbuf_take(&b);
}

static void end_success(struct event_context *ctx, struct trial *t, const struct job_end *d)
{
    const struct spec *spec = ctx->s->spec;
    for (int i = 0; i < spec->metric_count; i++) {
        const char *metric = spec->metrics[i].name;
        double x = NAN;
        (void)json_as_number(&x, json_object_get(t->metrics, metric)); /* not reported: NAN */
        if (i > 0 ? isfinite(x) : t->curve.count > 0)
            continue;
        AUTO(free) char *why = invalid_text(t, metric, spec->wandb_real);
        scheduler_end_trial(ctx, t, TRIAL_INVALID, d->seconds,
                            d->error ? xasprintf("%s; %s", why, d->error) : TAKE(why));
        return;
    }
    scheduler_end_trial(ctx, t, TRIAL_DONE, d->seconds, NULL);
}

/* Handles a trial that ended because of a node. A trial that was told to stop ends, too. */
static void end_by_node(struct event_context *ctx, struct trial *t, const struct job_end *d)
{
    AUTO(free) char *error = failure_text(d);
    scheduler_health_fault(ctx, t, (int)d->node_fault, error);
    if (t->state == TRIAL_PAUSING)
        pause_trial(ctx, t, d->seconds);
    else if (t->state == TRIAL_STOPPING && t->stop_reason != STOP_REASON_PREEMPTED)
        end_stopped(ctx, t, d->seconds);
    else
        requeue(ctx, t, STOP_REASON_NODE, false, TAKE(error));
}

static int on_done(struct event_context *ctx, const struct scheduler_event *ev, struct err *e)
{
    const struct spec *spec = ctx->s->spec;
    struct job_end d;
    if (read_job_end(&d, ev->data, e) < 0)
        return -EINVAL;
    struct trial *t = sweep_state_leased(&ctx->s->st, ev->lease);
    if (!t || t->lease != ev->lease || trial_is_ended(t->state))
        return 0;
    if (!trial_is_active(t->state)) {
        if (succeeded(&d) && !(d.stopped && (t->state == TRIAL_PAUSED || t->gang_workers)))
            end_success(ctx, t, &d);
        return 0;
    }
    if (d.node_fault >= 0) {
        end_by_node(ctx, t, &d);
        return 0;
    }
    if (!d.unstarted && !d.preempted)
        scheduler_health_success(ctx, t);
    if (t->state == TRIAL_PAUSING && (d.stopped || d.preempted)) {
        pause_trial(ctx, t, d.seconds);
    } else if (t->state == TRIAL_STOPPING && d.stopped) {
        end_stopped(ctx, t, d.seconds);
    } else if (succeeded(&d)) {
        end_success(ctx, t, &d);
    } else if (d.preempted) {
        requeue(ctx, t, STOP_REASON_PREEMPTED, !d.unstarted, NULL);
    } else if (d.oom) {
        scheduler_end_trial(ctx, t, TRIAL_OOM, d.seconds, failure_text(&d));
    } else if (spec->retry_failed && t->tries_spent < spec->retries) {
        requeue(ctx, t, STOP_REASON_FAILED, true, failure_text(&d));
    } else {
        scheduler_end_trial(ctx, t, TRIAL_FAILED, d.seconds, failure_text(&d));
    }
    return 0;
}

/* ---- time, drain ---------------------------------------------------------------------------- */

static int on_tick(struct event_context *ctx)
{
    struct scheduler *s = ctx->s;
    char *awaited = NULL;
    ctx->s->due_stale = true;
    scheduler_health_tick(ctx);
    for (struct trial *t; (t = scheduler_gang_overdue(ctx, &awaited));)
        requeue(ctx, t, STOP_REASON_LOST, false, awaited);
    for (size_t i = 0; i < s->worker_count; i++)
        if (s->workers[i]->lost_ms <= ctx->now_ms)
            lose_worker(ctx, s->workers[i]);
    for (size_t i = 0; s->spec->timeout_ms > 0 && i < s->st.active_count;) {
        struct trial *t = s->st.trials[s->st.active[i]];
        if (!is_stopping(t) && t->leased_ms + s->spec->timeout_ms <= ctx->now_ms)
            stop_trial(ctx, SCHEDULER_REC_STOPPING, t, stop_reason_word(STOP_REASON_TIMEOUT));
        i += trial_is_active(t->state);
    }
    return 0;
}

void scheduler_stop_all(struct event_context *ctx, enum stop_reason reason, bool again)
{
    const struct sweep_state *all = &ctx->s->st;
    for (size_t i = 0; i < all->active_count;) {
        struct trial *t = all->trials[all->active[i]];
        if (!is_stopping(t))
            stop_trial(ctx, SCHEDULER_REC_STOPPING, t, stop_reason_word(reason));
        else if (again)
            send_stop(ctx, t);
        i += trial_is_active(t->state); /* a trial that was not running yet has left the list */
    }
}

void scheduler_cancel_trial(struct event_context *ctx, struct trial *t, bool now)
{
    if (trial_is_ended(t->state)) /* it was named twice */
        return;
    if (!trial_is_active(t->state)) {
        scheduler_end_trial(ctx, t, TRIAL_CANCELLED, t->seconds, NULL);
        return;
    }
    /* A trial that was told to stop ends by itself, except if it would be requeued or paused. */
    bool requeued = t->state == TRIAL_STOPPING &&
                    (t->stop_reason == STOP_REASON_DRAIN || t->stop_reason == STOP_REASON_PAUSE ||
                     t->stop_reason == STOP_REASON_PREEMPTED);
    if (t->state != TRIAL_STOPPING || requeued)
        stop_trial(ctx, SCHEDULER_REC_STOPPING, t, stop_reason_word(STOP_REASON_STOP));
    const struct worker *w = scheduler_find_worker(ctx->s, t->worker);
    if (now && trial_is_active(t->state) && w->link != WORKER_LINK_ABSENT)
        scheduler_emit_action(ctx, SCHEDULER_ACT_KILL, w->id, t->id, t->lease, trial_stop_word(t));
}

static int on_drain(struct event_context *ctx)
{
    struct scheduler *s = ctx->s;
    s->draining = true;
    scheduler_stop_all(ctx, STOP_REASON_DRAIN, false);
    /* A worker that is not connected does not hear the STOP, and hears of it with its next
     * hello. */
    for (size_t i = 0; i < s->worker_count; i++)
        if (s->workers[i]->link == WORKER_LINK_ABSENT && s->workers[i]->busy > 0)
            lose_worker(ctx, s->workers[i]);
    return 0;
}

int scheduler_events_handle(struct event_context *ctx, const struct scheduler_event *ev,
                            struct err *e)
{
    switch (ev->kind) {
    case SCHEDULER_EV_HELLO:
        return on_hello(ctx, ev, e);
    case SCHEDULER_EV_SLOTS:
        return on_slots(ctx, ev, e);
    case SCHEDULER_EV_LOST:
        return on_lost(ctx, ev);
    case SCHEDULER_EV_LEAVING:
        return on_leaving(ctx, ev);
    case SCHEDULER_EV_RESERVED:
        scheduler_gang_reserved(ctx, ev);
        return 0;
    case SCHEDULER_EV_REVOKED:
        on_revoked(ctx, ev);
        return 0;
    case SCHEDULER_EV_REPORT:
        return on_report(ctx, ev, e);
    case SCHEDULER_EV_DONE:
        return on_done(ctx, ev, e);
    case SCHEDULER_EV_TESTED:
        return scheduler_health_tested(ctx, ev, e);
    case SCHEDULER_EV_TICK:
        return on_tick(ctx);
    case SCHEDULER_EV_DRAIN:
        return on_drain(ctx);
    case SCHEDULER_EV_COMMAND:
        return scheduler_commands_handle(ctx, ev->data, e);
    case SCHEDULER_EV_PREFETCH:
        scheduler_prefetch(ctx);
        return 0;
    }
    return err_set(e, -EINVAL, "unknown kind of event");
}
