/* scheduler_view - functions that show the scheduler's state to users and programs. */
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "hpo/scheduler/scheduler_internal.h"

json_t *scheduler_trial_json(const struct scheduler *s, int trial)
{
    const struct trial *t = s->st.trials[trial];
    double value = trial_value(t, s->spec->value_last);
    json_t *o = json_pack("{s:i, s:s, s:O, s:o, s:I, s:s?, s:f, s:I, s:o}", "id", t->id, "state",
                          trial_state_name(t->state), "params", t->params, "value",
                          isnan(value) ? json_null() : json_real(value), "steps",
                          (json_int_t)t->curve.count, "node", t->node, "seconds", t->seconds,
                          "lease", (json_int_t)t->lease, "metrics", json_copy(t->metrics));
    if (s->spec->outcomes.count > 0)
        json_object_set_new(o, "feasible",
                            json_boolean(outcome_feasible(&s->spec->outcomes, t->metrics)));
    if (t->error)
        json_object_set_new(o, "error", json_string(t->error));
    if (t->stop_reason != STOP_REASON_NONE)
        json_object_set_new(o, "why", json_string(trial_stop_word(t)));
    return o;
}

const json_t *scheduler_gang_members(const struct scheduler *s, const char *worker, int64_t lease)
{
    const struct trial *t = sweep_state_leased(&s->st, lease);
    bool runs =
        t && t->lease == lease && trial_is_active(t->state) && strcmp(t->worker, worker) == 0;
    return runs ? t->gang_workers : NULL;
}

const char *scheduler_runner(const struct scheduler *s, const char *worker, int64_t lease)
{
    const struct worker *w = scheduler_find_worker(s, worker);
    const struct trial *t = sweep_state_leased(&s->st, lease);
    bool holds = w && t && t->lease == lease && trial_is_active(t->state) &&
                 scheduler_gang_has_worker(w, t) && strcmp(t->worker, worker) != 0;
    return holds && !scheduler_gang_is_pending(s, t) ? t->worker : NULL;
}

struct trial_view scheduler_view(const struct scheduler *s)
{
    return sweep_state_view(&s->st);
}

char *scheduler_note(const struct scheduler *s)
{
    struct trial_view view = sweep_state_view(&s->st);
    return sampler_note(s->sampler, &view);
}

char *scheduler_unused_stopper(const struct scheduler *s)
{
    struct trial_view view = sweep_state_view(&s->st);
    return stopper_unused(s->stopper, &view);
}

int scheduler_best(const struct scheduler *s)
{
    int best = -1;
    double best_value = NAN;
    for (size_t i = 0; i < s->st.count; i++) {
        const struct trial *t = s->st.trials[i];
        double v = trial_value(t, s->spec->value_last);
        if (!trial_has_signal(t->state) || isnan(v) ||
            !outcome_feasible(&s->spec->outcomes, t->metrics))
            continue;
        if (best < 0 || (s->spec->metrics[0].maximize ? v > best_value : v < best_value)) {
            best = t->id;
            best_value = v;
        }
    }
    return best;
}

struct scheduler_counts scheduler_counts(const struct scheduler *s)
{
    return scheduler_counts_of(s->st.counts, scheduler_trials_wanted(s));
}

struct scheduler_counts scheduler_counts_of(const int *n, int total_wanted)
{
    return (struct scheduler_counts){
        .waiting = n[TRIAL_WAITING],
        .running = n[TRIAL_LEASED] + n[TRIAL_RUNNING],
        .stopping = n[TRIAL_STOPPING] + n[TRIAL_PAUSING],
        .paused = n[TRIAL_PAUSED],
        .done = n[TRIAL_DONE],
        .pruned = n[TRIAL_PRUNED],
        .failed = n[TRIAL_FAILED],
        .oom = n[TRIAL_OOM],
        .invalid = n[TRIAL_INVALID],
        .cancelled = n[TRIAL_CANCELLED],
        .total_wanted = total_wanted,
    };
}

static const char *node_of(const struct scheduler *s, const struct worker *w)
{
    for (size_t i = 0; i < s->st.active_count; i++) {
        const struct trial *t = s->st.trials[s->st.active[i]];
        if (t->node && strcmp(t->worker, w->id) == 0)
            return t->node;
    }
    return "an unnamed node";
}

json_t *scheduler_awaited(const struct scheduler *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->worker_count; i++) {
        const struct worker *w = s->workers[i];
        if (w->lost_ms != INT64_MAX)
            json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:I}", "id", w->id, "node", node_of(s, w),
                                            "lost_ms", (json_int_t)w->lost_ms));
    }
    return list;
}
