/* sched_show - a scheduler's state for people, programs and tests. */
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "hpo/scheduler/scheduler_internal.h"

json_t *sched_trial_json(const struct sched *s, int trial)
{
    const struct trial *t = s->st.trials[trial];
    double value = trial_value(t, s->spec->value_last);
    json_t *o = json_pack("{s:i, s:s, s:O, s:o, s:I, s:s?, s:f, s:I, s:o}", "id", t->id, "state",
                          trial_state_name(t->state), "params", t->params, "value",
                          isnan(value) ? json_null() : json_real(value), "steps",
                          (json_int_t)t->point_count, "node", t->node, "seconds", t->seconds,
                          "lease", (json_int_t)t->lease, "metrics", json_copy(t->metrics));
    if (t->error)
        json_object_set_new(o, "error", json_string(t->error));
    if (t->why)
        json_object_set_new(o, "why", json_string(t->why));
    return o;
}

int sched_trial_count(const struct sched *s)
{
    return (int)s->st.count;
}

const json_t *sched_others(const struct sched *s, const char *worker, int64_t lease)
{
    const struct trial *t = sched_state_leased(&s->st, lease);
    bool runs = t && t->lease == lease && trial_out(t->state) && strcmp(t->worker, worker) == 0;
    return runs ? t->with : NULL;
}

const char *sched_runner(const struct sched *s, const char *worker, int64_t lease)
{
    const struct worker *w = sched_in_worker(s, worker);
    const struct trial *t = sched_state_leased(&s->st, lease);
    bool holds = w && t && t->lease == lease && trial_out(t->state) && sched_in_has(w, t) &&
                 strcmp(t->worker, worker) != 0;
    return holds && !sched_in_set_awaited(s, t) ? t->worker : NULL;
}

struct trial_view sched_view(const struct sched *s)
{
    return sched_state_view(&s->st);
}

int sched_best(const struct sched *s)
{
    int best = -1;
    double best_value = NAN;
    for (size_t i = 0; i < s->st.count; i++) {
        const struct trial *t = s->st.trials[i];
        double v = trial_value(t, s->spec->value_last);
        if (!trial_counts(t->state) || isnan(v))
            continue;
        if (best < 0 || (s->spec->metrics[0].maximize ? v > best_value : v < best_value)) {
            best = t->id;
            best_value = v;
        }
    }
    return best;
}

int sched_choice(const struct sched *s)
{
    struct trial_view view = sched_state_view(&s->st);
    int chosen = sampler_best(s->sampler, &view);
    return chosen >= 0 ? chosen : sched_best(s);
}

struct sched_counts sched_counts(const struct sched *s)
{
    const int *n = s->st.counts;
    return (struct sched_counts){
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
        .total_wanted = sched_in_wanted(s),
    };
}

json_t *sched_dump(const struct sched *s)
{
    json_t *busy = json_object();
    for (size_t i = 0; i < s->worker_count; i++)
        if (s->workers[i]->busy > 0)
            json_object_set_new(busy, s->workers[i]->id, json_integer(s->workers[i]->busy));
    return json_pack("{s:o, s:o}", "state", sched_state_dump(&s->st), "busy", busy);
}
