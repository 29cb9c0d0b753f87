/* sched_event - what each event means: one handler for each kind. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "common/opt.h"
#include "common/strbuf.h"
#include "hpo/scheduler/scheduler_internal.h"

/* ---- trials end, stop, wait again --------------------------------------------------------------
 */

void scheduler_end_trial(struct event_context *st, const struct trial *t, enum trial_state state,
                         double seconds, char *error)
{
    AUTO(free) char *text = error;
    double value = trial_value(t, st->s->spec->value_last);
    json_t *data = json_pack("{s:s, s:f}", "state", trial_state_name(state), "seconds", seconds);
    json_object_set_new(data, "value", isnan(value) ? json_null() : json_real(value));
    if (text)
        json_object_set_new(data, "error", json_string(text));
    if ((t->state == TRIAL_STOPPING || t->state == TRIAL_PAUSED) && state != TRIAL_DONE)
        json_object_set_new(data, "why", json_string(trial_stop_word(t)));
    scheduler_emit_record(st, SCHEDULER_REC_ENDED, t, t->lease, data);
}

/* Back to waiting, or failed where the retries are spent. Takes over `error` (NULL: none). */
static void requeue(struct event_context *st, struct trial *t, enum stop_reason reason, bool spent,
                    char *error)
{
    AUTO(free) char *text = error;
    int retries = st->s->spec->retries;
    if (spent && t->tries_spent >= retries) {
        scheduler_end_trial(
            st, t, TRIAL_FAILED, 0,
            text ? TAKE(text)
                 : xasprintf("%s after %d retries", stop_reason_text(reason), t->tries_spent));
        return;
    }
    json_t *data = json_pack("{s:s, s:b}", "why", stop_reason_word(reason), "spent", spent);
    if (text)
        json_object_set_new(data, "error", json_string(text));
    scheduler_emit_record(st, SCHEDULER_REC_REQUEUED, t, t->lease, data);
}

static void act_stop(struct event_context *st, const struct trial *t)
{
    const struct worker *w = scheduler_find_worker(st->s, t->worker);
    bool now = st->s->st.stopped && st->s->st.now;
    if (w->connected)
        scheduler_emit_action(st, now ? SCHEDULER_ACT_KILL : SCHEDULER_ACT_STOP, w->id, t->id,
                              t->lease, trial_stop_word(t));
}

static bool told_to_stop(const struct trial *t)
{
    return t->state == TRIAL_STOPPING || t->state == TRIAL_PAUSING;
}

static void lose_lease(struct event_context *st, struct trial *t, const struct worker *by,
                       bool ran);

/* `kind`: STOPPING, or PAUSING. `word`: of the reason, or the name of an early stopper. */
static void stop_trial(struct event_context *st, enum scheduler_record_kind kind, struct trial *t,
                       const char *word)
{
    scheduler_emit_record(st, kind, t, t->lease, json_pack("{s:s}", "why", word));
    if (scheduler_gang_is_pending(st->s, t))
        lose_lease(st, t, NULL, false); /* nobody runs it */
    else
        act_stop(st, t);
}

/* A trial that was told to stop has stopped, or is gone. */
static void end_stopped(struct event_context *st, struct trial *t, double seconds)
{
    switch (t->stop_reason) {
    case STOP_REASON_DRAIN:
    case STOP_REASON_PAUSE:
        requeue(st, t, t->stop_reason, false, NULL);
        return;
    case STOP_REASON_PREEMPTED:
        requeue(st, t, t->stop_reason, true, NULL);
        return;
    case STOP_REASON_STOP:
        scheduler_end_trial(st, t, TRIAL_CANCELLED, seconds, NULL);
        return;
    case STOP_REASON_TIMEOUT:
        scheduler_end_trial(st, t, TRIAL_FAILED, seconds,
                            xasprintf("ran longer than the timeout of %.15g s",
                                      (double)st->s->spec->timeout_ms / 1e3));
        return;
    default: /* by an early stopper */
        scheduler_end_trial(st, t, TRIAL_PRUNED, seconds, NULL);
    }
}

/* A trial that was told to stop for now has stopped, or is gone. */
static void pause_trial(struct event_context *st, struct trial *t, double seconds)
{
    scheduler_emit_record(st, SCHEDULER_REC_PAUSED, t, t->lease,
                          json_pack("{s:f}", "seconds", seconds));
}

/* Its lease is void, since `by` (NULL: nobody of them) has it no more: who else runs it stops.
 * `ran`: it may have been why; else it is not held against the trial. */
static void lose_lease(struct event_context *st, struct trial *t, const struct worker *by, bool ran)
{
    const struct worker *runs = scheduler_find_worker(st->s, t->worker);
    if (by && runs != by && runs->connected && !scheduler_gang_is_pending(st->s, t))
        scheduler_emit_action(st, SCHEDULER_ACT_STOP, runs->id, t->id, t->lease,
                              "this lease is void");
    if (t->state == TRIAL_STOPPING)
        end_stopped(st, t, t->seconds);
    else if (t->state == TRIAL_PAUSING)
        pause_trial(st, t, t->seconds);
    else
        requeue(st, t, STOP_REASON_LOST, ran, NULL);
}

/* ---- workers -----------------------------------------------------------------------------------
 */

/* The trials that a worker holds: their ids. To be freed. */
static int *held_by(const struct scheduler *s, const struct worker *w, size_t *count)
{
    int *ids = xcalloc((size_t)w->busy + 1, sizeof *ids);
    *count = 0;
    for (size_t i = 0; i < s->st.out_count && *count < (size_t)w->busy; i++)
        if (scheduler_gang_has_worker(w, s->st.trials[s->st.out[i]]))
            ids[(*count)++] = s->st.out[i];
    return ids;
}

static void lose_worker(struct event_context *st, struct worker *w)
{
    size_t n = 0;
    AUTO(free) int *ids = held_by(st->s, w, &n);
    w->connected = false;
    scheduler_worker_settled(st->s, w);
    worker_capacity_update(st->s, w);
    for (size_t i = 0; i < n; i++) {
        struct trial *t = st->s->st.trials[ids[i]];
        lose_lease(st, t, w, !scheduler_gang_is_pending(st->s, t));
    }
}

/* Whether `lease` is among the first n that a worker says it runs. */
static bool lists(const json_t *running, size_t n, int64_t lease)
{
    for (size_t i = 0; i < n; i++)
        if (json_integer_value(json_array_get(running, i)) == lease)
            return true;
    return false;
}

/* A lease that a worker says it runs; whether it does. */
static bool claim(struct event_context *st, const struct worker *w, int64_t lease)
{
    const struct trial *t = sweep_state_leased(&st->s->st, lease);
    bool valid =
        t && t->lease == lease && trial_is_active(t->state) && scheduler_gang_has_worker(w, t);
    if (!valid)
        scheduler_emit_action(st, SCHEDULER_ACT_STOP, w->id, t ? t->id : -1, lease,
                              "this lease is void");
    else if (told_to_stop(t))
        act_stop(st, t); /* it may not have heard of it */
    return valid;
}

static int on_hello(struct event_context *st, const struct scheduler_event *ev, struct err *e)
{
    int64_t places = 0;
    const char *node = NULL;
    if (!ev->worker || json_require_int(&places, ev->data, "slots", e) < 0 ||
        json_optional_str(&node, ev->data, "node", e) < 0)
        return -EINVAL;
    const json_t *running = json_object_get(ev->data, "running");
    AUTO(json)
    json_t *utf8 = json_string(ev->worker); /* NULL: it is none, and no record holds it */
    if (!utf8)
        return err_set(e, -EINVAL, "a hello of a worker whose id is no UTF-8");
    if (places < 0 || places > INT_MAX || (running && !json_is_array(running)))
        return err_set(e, -EINVAL, "a hello with bad 'slots' or 'running'");
    struct worker *w = scheduler_add_worker(st->s, ev->worker);
    free(w->node);
    w->node = node ? xstrdup(node) : NULL;
    w->places = (int)places;
    w->connected = true;
    w->leaving = w->unresponsive = false;
    scheduler_worker_settled(st->s, w);
    worker_capacity_update(st->s, w);
    size_t said = json_array_size(running), has = 0, n = 0;
    for (size_t i = 0; i < said; i++) {
        int64_t lease = json_integer_value(json_array_get(running, i));
        has += claim(st, w, lease) && !lists(running, i, lease);
    }
    if (has == (size_t)w->busy)
        return 0; /* as when a connection is renewed: nobody looks through all trials for it */
    AUTO(free) int *ids = held_by(st->s, w, &n);
    for (size_t i = 0; i < n; i++) {
        struct trial *t = st->s->st.trials[ids[i]];
        bool runs = strcmp(t->worker, w->id) == 0;
        if (lists(running, said, t->lease) || (runs && scheduler_gang_is_pending(st->s, t)))
            continue;
        /* Its RUN never came there. Should it still be under way, the STOP follows it. */
        scheduler_emit_action(st, SCHEDULER_ACT_STOP, w->id, t->id, t->lease, "this lease is void");
        lose_lease(st, t, w, false);
    }
    return 0;
}

/* Of one that is not here: the next hello says it again. */
static int on_places(struct event_context *st, const struct scheduler_event *ev, struct err *e)
{
    int64_t places = 0;
    if (json_require_int(&places, ev->data, "slots", e) < 0)
        return -EINVAL;
    if (places < 0 || places > INT_MAX)
        return err_set(e, -EINVAL, "bad 'slots' of a worker");
    struct worker *w = scheduler_find_worker(st->s, ev->worker);
    if (!w)
        return 0;
    w->places = (int)places;
    w->unresponsive = false;
    worker_capacity_update(st->s, w);
    return 0;
}

static void on_drop(struct event_context *st, const struct scheduler_event *ev)
{
    const struct worker *w = scheduler_find_worker(st->s, ev->worker);
    struct trial *t = sweep_state_leased(&st->s->st, ev->lease);
    if (!w || !t || t->lease != ev->lease || !trial_is_active(t->state) ||
        !scheduler_gang_has_worker(w, t))
        return;
    if (scheduler_gang_is_pending(st->s, t))
        requeue(st, t, STOP_REASON_PREEMPTED, false, NULL);
    else if (!told_to_stop(t))
        stop_trial(st, SCHEDULER_REC_STOPPING, t, stop_reason_word(STOP_REASON_PREEMPTED));
}

static int on_lost(struct event_context *st, const struct scheduler_event *ev)
{
    struct worker *w = scheduler_find_worker(st->s, ev->worker);
    if (w)
        lose_worker(st, w);
    return 0;
}

static int on_leaving(struct event_context *st, const struct scheduler_event *ev)
{
    struct worker *w = scheduler_find_worker(st->s, ev->worker);
    if (!w)
        return 0;
    w->leaving = true;
    worker_capacity_update(st->s, w);
    return 0;
}

/* ---- reports -----------------------------------------------------------------------------------
 */

/* The numbers of a report without its step. New reference. */
static json_t *numbers_of(const json_t *data)
{
    json_t *values = json_object();
    const char *name = NULL;
    json_t *value = NULL;
    double x = 0;
    json_object_foreach ((json_t *)data, name, value) /* only reads, but takes no const */
        if (strcmp(name, "step") != 0 && json_as_number(&x, value) == 0)
            json_object_set(values, name, value);
    return values;
}

static int on_report(struct event_context *st, const struct scheduler_event *ev, struct err *e)
{
    if (!json_is_object(ev->data))
        return err_set(e, -EINVAL, "a report that is no mapping");
    struct scheduler *s = st->s;
    const char *metric = s->spec->metrics[0].name;
    struct trial *t = sweep_state_leased(&s->st, ev->lease);
    if (!t || t->lease != ev->lease || trial_next_state(t->state, TRIAL_EV_REPORT) < 0)
        return 0;
    AUTO(json) json_t *values = numbers_of(ev->data);
    double step = 0;
    if (json_as_number(&step, json_object_get(ev->data, "step")) < 0 || !isfinite(step))
        step = trial_next_step(t);
    if (json_object_size(values) > 0 && !trial_repeated(t, step, values, metric)) {
        json_t *said = step == rint(step) && fabs(step) < 1e15 ? json_integer((json_int_t)step)
                                                               : json_real(step);
        scheduler_emit_record(st, SCHEDULER_REC_REPORT, t, t->lease,
                              json_pack("{s:o, s:O}", "step", said, "values", values));
        enum stopper_verdict verdict = scheduler_judge_report(s, t);
        if (verdict != STOPPER_CONTINUE) {
            stop_trial(st, verdict == STOPPER_STOP ? SCHEDULER_REC_STOPPING : SCHEDULER_REC_PAUSING,
                       t, stopper_name(s->stopper));
            return 0;
        }
    }
    if (told_to_stop(t))
        act_stop(st, t); /* whoever reports waits for an answer */
    return 0;
}

/* ---- ends --------------------------------------------------------------------------------------
 */

struct ending { /* DONE's data */
    int64_t status, signal;
    bool oom, preempted, stopped;
    bool unstarted; /* nothing of it ran: it costs no retry that it goes back */
    double seconds;
    const char *error; /* NULL: none given */
};

static int read_ending(struct ending *d, const json_t *data, struct err *e)
{
    *d = (struct ending){.stopped = true};
    if (json_optional_int(&d->status, data, "status", e) < 0 ||
        json_optional_int(&d->signal, data, "signal", e) < 0 ||
        json_optional_bool(&d->oom, data, "oom", e) < 0 ||
        json_optional_bool(&d->preempted, data, "preempted", e) < 0 ||
        json_optional_bool(&d->stopped, data, "stopped", e) < 0 ||
        json_optional_bool(&d->unstarted, data, "not_started", e) < 0 ||
        json_optional_real(&d->seconds, data, "seconds", e) < 0)
        return -EINVAL;
    return json_optional_str(&d->error, data, "error", e);
}

static bool succeeded(const struct ending *d)
{
    return d->status == 0 && d->signal == 0 && !d->oom && !d->preempted;
}

static char *failure_text(const struct ending *d)
{
    if (d->error && d->error[0])
        return xstrdup(d->error);
    if (d->oom)
        return xstrdup("out of memory");
    if (d->signal)
        return xasprintf("killed by signal %d (%s)", (int)d->signal, strsignal((int)d->signal));
    return xasprintf("exit status %d", (int)d->status);
}

enum { NEAREST = 3, NAMES_SAID = 20 };

/* Moves the name that is nearest to the metric's to names[0]; false: none is near. */
static bool nearest_first(const char *metric, const char **names, size_t n)
{
    const char *near = opt_suggest(metric, names, n);
    for (size_t i = 0; near && i < n; i++)
        if (names[i] == near) {
            names[i] = names[0];
            names[0] = near;
            return true;
        }
    return false;
}

/* Why a trial without a finite value of the metric is invalid: what it did report, the nearest
 * first. */
static char *invalid_text(const struct trial *t, const char *metric)
{
    if (json_object_get(t->metrics, metric))
        return xasprintf("no value of the metric '%s' was finite", metric);
    size_t n = json_object_size(t->metrics), count = 0;
    AUTO(free) const char **names = xcalloc(n + 1, sizeof *names);
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach (t->metrics, name, value)
        names[count++] = name;
    for (size_t i = 0; i < NEAREST && i < n; i++)
        if (!nearest_first(metric, names + i, n - i))
            break;
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_printf(&b, "the metric '%s' was never reported; %s", metric,
                  n ? "what was: " : "nothing was");
    for (size_t i = 0; i < n && i < NAMES_SAID; i++)
        strbuf_printf(&b, "%s'%s'", i ? ", " : "", names[i]);
    if (n > NAMES_SAID)
        strbuf_printf(&b, " and %zu more", n - NAMES_SAID);
    return strbuf_take(&b);
}

static void end_success(struct event_context *st, struct trial *t, double seconds)
{
    const char *metric = st->s->spec->metrics[0].name;
    if (metric && t->point_count == 0)
        scheduler_end_trial(st, t, TRIAL_INVALID, seconds, invalid_text(t, metric));
    else
        scheduler_end_trial(st, t, TRIAL_DONE, seconds, NULL);
}

static int on_done(struct event_context *st, const struct scheduler_event *ev, struct err *e)
{
    const struct spec *spec = st->s->spec;
    struct ending d;
    if (read_ending(&d, ev->data, e) < 0)
        return -EINVAL;
    struct trial *t = sweep_state_leased(&st->s->st, ev->lease);
    if (!t || t->lease != ev->lease || trial_is_ended(t->state))
        return 0;
    if (!trial_is_active(t->state)) {
        if (succeeded(&d) && !(d.stopped && (t->state == TRIAL_PAUSED || t->gang_workers)))
            end_success(st, t, d.seconds);
    } else if (t->state == TRIAL_PAUSING && (d.stopped || d.preempted)) {
        pause_trial(st, t, d.seconds);
    } else if (t->state == TRIAL_STOPPING && d.stopped) {
        end_stopped(st, t, d.seconds);
    } else if (succeeded(&d)) {
        end_success(st, t, d.seconds);
    } else if (d.preempted) {
        requeue(st, t, STOP_REASON_PREEMPTED, !d.unstarted, NULL);
    } else if (d.oom) {
        scheduler_end_trial(st, t, TRIAL_OOM, d.seconds, failure_text(&d));
    } else if (spec->retry_failed && t->tries_spent < spec->retries) {
        requeue(st, t, STOP_REASON_FAILED, true, failure_text(&d));
    } else {
        scheduler_end_trial(st, t, TRIAL_FAILED, d.seconds, failure_text(&d));
    }
    return 0;
}

/* ---- time, and the user ------------------------------------------------------------------------
 */

static int on_tick(struct event_context *st)
{
    struct scheduler *s = st->s;
    char *awaited = NULL;
    for (struct trial *t; (t = scheduler_gang_overdue(st, &awaited));)
        requeue(st, t, STOP_REASON_LOST, false, awaited);
    for (size_t i = 0; i < s->worker_count; i++)
        if (s->workers[i]->lost_ms <= st->now_ms)
            lose_worker(st, s->workers[i]);
    for (size_t i = 0; s->spec->timeout_ms > 0 && i < s->st.out_count;) {
        struct trial *t = s->st.trials[s->st.out[i]];
        if (!told_to_stop(t) && t->leased_ms + s->spec->timeout_ms <= st->now_ms)
            stop_trial(st, SCHEDULER_REC_STOPPING, t, stop_reason_word(STOP_REASON_TIMEOUT));
        i += trial_is_active(t->state);
    }
    return 0;
}

void scheduler_stop_all(struct event_context *st, enum stop_reason reason, bool again)
{
    const struct sweep_state *all = &st->s->st;
    for (size_t i = 0; i < all->out_count;) {
        struct trial *t = all->trials[all->out[i]];
        if (!told_to_stop(t))
            stop_trial(st, SCHEDULER_REC_STOPPING, t, stop_reason_word(reason));
        else if (again)
            act_stop(st, t);
        i += trial_is_active(t->state); /* one that nobody ran yet has left the list */
    }
}

static int on_drain(struct event_context *st)
{
    st->s->draining = true;
    scheduler_stop_all(st, STOP_REASON_DRAIN, false);
    return 0;
}

int scheduler_events_handle(struct event_context *st, const struct scheduler_event *ev,
                            struct err *e)
{
    switch (ev->kind) {
    case SCHEDULER_EV_HELLO:
        return on_hello(st, ev, e);
    case SCHEDULER_EV_SLOTS:
        return on_places(st, ev, e);
    case SCHEDULER_EV_LOST:
        return on_lost(st, ev);
    case SCHEDULER_EV_LEAVING:
        return on_leaving(st, ev);
    case SCHEDULER_EV_RESERVED:
        scheduler_gang_reserved(st, ev);
        return 0;
    case SCHEDULER_EV_REVOKED:
        on_drop(st, ev);
        return 0;
    case SCHEDULER_EV_REPORT:
        return on_report(st, ev, e);
    case SCHEDULER_EV_DONE:
        return on_done(st, ev, e);
    case SCHEDULER_EV_TICK:
        return on_tick(st);
    case SCHEDULER_EV_DRAIN:
        return on_drain(st);
    case SCHEDULER_EV_COMMAND:
        return scheduler_commands_handle(st, ev->data, e);
    case SCHEDULER_EV_PREFETCH:
        scheduler_prefetch(st);
        return 0;
    }
    return err_set(e, -EINVAL, "an unknown kind of event");
}
