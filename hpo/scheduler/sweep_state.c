#include "hpo/scheduler/sweep_state.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#include "common/json.h"

void sweep_state_free(struct sweep_state *st)
{
    for (size_t i = 0; i < st->count; i++)
        trial_free(st->trials[i]);
    free(st->trials);
    free(st->lease_trial);
    free(st->active);
    json_decref(st->commands);
    *st = (struct sweep_state){0};
}

struct trial *sweep_state_leased(const struct sweep_state *st, int64_t lease)
{
    return lease < 1 || (uint64_t)lease > st->lease_count ? NULL
                                                          : st->trials[st->lease_trial[lease - 1]];
}

struct trial *sweep_state_waiting(const struct sweep_state *st)
{
    return st->waiting_from < st->count ? st->trials[st->waiting_from] : NULL;
}

static void set_state(struct sweep_state *st, struct trial *t, enum trial_state to)
{
    bool was_out = trial_is_active(t->state);
    st->counts[t->state]--;
    st->counts[to]++;
    t->state = to;
    if (!was_out && trial_is_active(to)) {
        t->active_index = st->active_count;
        st->active = xgrow(st->active, st->active_count, sizeof *st->active);
        st->active[st->active_count++] = t->id;
    } else if (was_out && !trial_is_active(to)) {
        int last = st->active[--st->active_count];
        st->active[t->active_index] = last;
        st->trials[last]->active_index = t->active_index;
    }
    if (to == TRIAL_WAITING && (size_t)t->id < st->waiting_from)
        st->waiting_from = (size_t)t->id;
    while (st->waiting_from < st->count && st->trials[st->waiting_from]->state != TRIAL_WAITING)
        st->waiting_from++;
}

/* ---- records -------------------------------------------------------------------------------- */

static int damaged(const struct scheduler_record *r, const char *what, struct err *e)
{
    return err_set(e, -EINVAL, "trial %d, lease %lld: %s", r->trial, (long long)r->lease, what);
}

static void set_text(char **to, const json_t *data, const char *key)
{
    const char *text = json_string_value(json_object_get(data, key));
    free(*to);
    *to = text ? xstrdup(text) : NULL;
}

static void set_stop_reason(struct trial *t, const json_t *data)
{
    trial_set_stop_word(t, json_string_value(json_object_get(data, "why")));
}

const char *sweep_state_missing(enum scheduler_record_kind kind, bool why, bool seconds)
{
    switch (kind) {
    case SCHEDULER_REC_STOPPING:
    case SCHEDULER_REC_PAUSING:
    case SCHEDULER_REC_REQUEUED:
        return why ? NULL : "without a reason";
    case SCHEDULER_REC_PAUSED:
    case SCHEDULER_REC_ENDED:
        return seconds ? NULL : "without its seconds";
    default:
        return NULL;
    }
}

static int apply_created(struct sweep_state *st, const struct scheduler_record *r, struct err *e)
{
    json_t *params = json_object_get(r->data, "params");
    if (r->lease != 0 || r->trial < 0 || (size_t)r->trial != st->count || !json_is_object(params))
        return damaged(r, "created out of order, or without parameters", e);
    st->trials = xgrow(st->trials, st->count, sizeof *st->trials);
    st->trials[st->count++] = trial_new(r->trial, params, r->at_ms);
    st->counts[TRIAL_WAITING]++;
    st->added += json_is_true(json_object_get(r->data, "added"));
    return 0;
}

bool sweep_state_command(struct sweep_commands *c, const struct scheduler_record *r)
{
    const char *verb = json_string_value(json_object_get(r->data, "verb"));
    json_int_t trials = json_integer_value(json_object_get(r->data, "trials"));
    if (r->trial != -1 || r->lease != 0 || !json_is_string(json_object_get(r->data, "ask")) ||
        !verb || trials < 0 || trials > INT_MAX - c->raised)
        return false;
    bool stop = strcmp(verb, "stop") == 0, pause = strcmp(verb, "pause") == 0;
    if (stop)
        c->now = json_is_true(json_object_get(r->data, "now"));
    bool cancel = strcmp(verb, "cancel") == 0; /* of trials: the sweep continues as it is */
    c->stopped = stop || ((pause || cancel) && c->stopped);
    c->paused = pause || (c->paused && strcmp(verb, "resume") != 0);
    c->more = !stop && !pause && !cancel;
    c->raised += (int)trials;
    return true;
}

/* Applies the changes that a command makes to the sweep. Its effects on trials have records of
 * their own. */
static int apply_command(struct sweep_state *st, const struct scheduler_record *r, struct err *e)
{
    if (!sweep_state_command(&st->asked, r))
        return damaged(r, "an invalid command", e);
    st->target_hit = st->target_hit && !st->asked.more;
    if (!st->commands)
        st->commands = json_object();
    json_object_set_new(st->commands, json_string_value(json_object_get(r->data, "ask")),
                        json_true());
    return 0;
}

static int apply_retried(struct sweep_state *st, struct trial *t)
{
    trial_set_stop_word(t, NULL);
    set_text(&t->error, NULL, NULL);
    t->tries_spent = t->end_order = 0;
    t->ended_ms = 0;
    set_state(st, t, TRIAL_WAITING);
    return 0;
}

static bool are_names(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_array_get(list, i)))
            return false;
    return true;
}

static int apply_leased(struct sweep_state *st, struct trial *t, const struct scheduler_record *r,
                        struct err *e)
{
    json_t *with = json_object_get(r->data, "with");
    if (r->lease < 1 || (uint64_t)r->lease != st->lease_count + 1 || r->lease == INT_MAX ||
        !json_is_string(json_object_get(r->data, "worker")) || !are_names(with))
        return damaged(r, "leased out of order, or without a worker", e);
    st->lease_trial = xgrow(st->lease_trial, st->lease_count, sizeof *st->lease_trial);
    st->lease_trial[st->lease_count++] = t->id;
    if (t->state == TRIAL_PAUSED && t->curve.count > 0)
        t->resumed_at = t->curve.points[t->curve.count - 1].step;
    t->lease = r->lease;
    t->leased_ms = r->at_ms;
    set_text(&t->worker, r->data, "worker");
    set_text(&t->node, r->data, "node");
    json_decref(t->gang_workers);
    t->gang_workers = json_incref(with);
    set_state(st, t, TRIAL_LEASED);
    return 0;
}

/* Returns true if there are targets and the trial has reached all of them and is feasible. For the
 * first metric its best value counts, for the others their last value. */
static bool on_target(const struct spec *spec, const struct trial *t)
{
    int targets = 0;
    for (int i = 0; i < spec->metric_count; i++) {
        const struct spec_metric *m = &spec->metrics[i];
        double x = NAN;
        if (i == 0)
            x = trial_value(t, false);
        else if (json_as_number(&x, json_object_get(t->metrics, m->name)) < 0)
            x = NAN;
        if (m->has_target && !(m->maximize ? x >= m->target : x <= m->target))
            return false;
        targets += m->has_target;
    }
    return targets > 0 && outcome_feasible(&spec->outcomes, t->metrics);
}

static int apply_report(struct sweep_state *st, struct trial *t, const struct scheduler_record *r,
                        struct err *e)
{
    double step = 0;
    const json_t *values = json_object_get(r->data, "values");
    const struct spec *spec = st->spec;
    if (json_as_number(&step, json_object_get(r->data, "step")) < 0 || !isfinite(step) ||
        !json_is_object(values))
        return damaged(r, "a report without a step or values", e);
    trial_report(t, step, values, spec->metrics[0].name, spec->metrics[0].maximize);
    st->target_hit = st->target_hit || on_target(spec, t);
    set_state(st, t, (enum trial_state)states_next(&trial_states, t->state, TRIAL_EV_REPORT));
    return 0;
}

static int apply_ended(struct sweep_state *st, struct trial *t, const struct scheduler_record *r,
                       struct err *e)
{
    const char *word = json_string_value(json_object_get(r->data, "state"));
    int to = word ? trial_state_parse(word) : -1;
    if (to < 0 || !trial_is_ended((enum trial_state)to))
        return damaged(r, "ended in a state that is not final", e);
    double seconds = json_number_value(json_object_get(r->data, "seconds"));
    set_stop_reason(t, r->data);
    set_text(&t->error, r->data, "error");
    t->seconds = seconds;
    t->ended_ms = r->at_ms;
    t->end_order = ++st->ended_count;
    st->ended_seconds += seconds;
    set_state(st, t, (enum trial_state)to);
    return 0;
}

static int apply_to_trial(struct sweep_state *st, struct trial *t, const struct scheduler_record *r,
                          struct err *e)
{
    switch (r->kind) {
    case SCHEDULER_REC_LEASED:
        return apply_leased(st, t, r, e);
    case SCHEDULER_REC_REPORT:
        return apply_report(st, t, r, e);
    case SCHEDULER_REC_STOPPING:
        set_stop_reason(t, r->data);
        set_state(st, t, TRIAL_STOPPING);
        return 0;
    case SCHEDULER_REC_PAUSING:
        set_stop_reason(t, r->data);
        set_state(st, t, TRIAL_PAUSING);
        return 0;
    case SCHEDULER_REC_PAUSED:
        t->seconds = json_number_value(json_object_get(r->data, "seconds"));
        set_state(st, t, TRIAL_PAUSED);
        return 0;
    case SCHEDULER_REC_REQUEUED:
        set_stop_reason(t, r->data);
        set_text(&t->error, r->data, "error");
        t->tries_spent += json_is_true(json_object_get(r->data, "spent"));
        set_state(st, t, TRIAL_WAITING);
        return 0;
    case SCHEDULER_REC_ENDED:
        return apply_ended(st, t, r, e);
    case SCHEDULER_REC_RETRIED:
        return apply_retried(st, t);
    case SCHEDULER_REC_CREATED:
    case SCHEDULER_REC_COMMAND:
    case SCHEDULER_REC_KINDS:
        break;
    }
    return damaged(r, "an unknown kind of record", e);
}

const enum trial_event sweep_state_events[SCHEDULER_REC_KINDS] = {
    [SCHEDULER_REC_LEASED] = TRIAL_EV_LEASE,  [SCHEDULER_REC_REPORT] = TRIAL_EV_REPORT,
    [SCHEDULER_REC_STOPPING] = TRIAL_EV_STOP, [SCHEDULER_REC_REQUEUED] = TRIAL_EV_REQUEUE,
    [SCHEDULER_REC_ENDED] = TRIAL_EV_END,     [SCHEDULER_REC_PAUSING] = TRIAL_EV_PAUSE,
    [SCHEDULER_REC_PAUSED] = TRIAL_EV_PAUSED, [SCHEDULER_REC_RETRIED] = TRIAL_EV_RETRY,
};

int sweep_state_apply(struct sweep_state *st, const struct scheduler_record *r, struct err *e)
{
    if (r->kind == SCHEDULER_REC_CREATED)
        return apply_created(st, r, e);
    if (r->kind == SCHEDULER_REC_COMMAND)
        return apply_command(st, r, e);
    if (r->kind >= SCHEDULER_REC_KINDS || r->trial < 0 || (size_t)r->trial >= st->count)
        return damaged(r, "a record of a trial that was never created", e);
    struct trial *t = st->trials[r->trial];
    if (states_next(&trial_states, t->state, sweep_state_events[r->kind]) < 0)
        return damaged(r, "a record that does not follow from the trial's state", e);
    if (r->kind != SCHEDULER_REC_LEASED && r->lease != t->lease)
        return damaged(r, "a record of another lease than the trial's last", e);
    const char *missing =
        sweep_state_missing(r->kind, json_is_string(json_object_get(r->data, "why")),
                            json_is_number(json_object_get(r->data, "seconds")));
    if (missing)
        return damaged(r, missing, e);
    return apply_to_trial(st, t, r, e);
}
