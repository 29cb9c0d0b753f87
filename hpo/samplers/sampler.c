#include "hpo/samplers/sampler.h"

#include <stdlib.h>

#include "hpo/space/distribution.h"

const struct sampler_ops *sampler_of(enum spec_method m)
{
    static const struct sampler_ops *const methods[SPEC_METHODS] = {
        [SPEC_GRID] = &sampler_grid,
        [SPEC_RANDOM] = &sampler_random,
        [SPEC_SOBOL] = &sampler_sobol,
        [SPEC_BAYES] = &sampler_bayes,
    };
    return methods[m];
}

void sampler_task_of_spec(struct sampler_task *task, struct sampler_goal *goals,
                          const struct spec *s)
{
    for (int i = 0; i < s->metric_count; i++)
        goals[i] = (struct sampler_goal){.metric = s->metrics[i].name,
                                         .maximize = s->metrics[i].maximize,
                                         .last = s->value_last};
    *task = (struct sampler_task){
        .space = s->space,
        .seed = s->seed,
        .repeats = s->repeats,
        .goals = goals,
        .goal_count = (size_t)s->metric_count,
        .stop = s->stop.type == SPEC_STOPPER_NONE ? NULL : &s->stop,
        .budget = s->run_cap,
        .batch = s->parallel,
        .prior = s->prior,
    };
}

struct sampler *sampler_new(const struct sampler_ops *ops, const struct sampler_task *task)
{
    struct sampler *s = xzalloc(sizeof *s);
    s->ops = ops;
    s->task = *task;
    s->task.repeats = task->repeats > 0 ? task->repeats : 1;
    s->tried = json_object();
    s->own = ops->own_new ? ops->own_new(s) : NULL;
    return s;
}

void sampler_free(struct sampler *s)
{
    if (!s)
        return;
    if (s->ops->own_free)
        s->ops->own_free(s->own);
    json_decref(s->tried);
    free(s);
}

void sampler_see(struct sampler *s, const struct trial_view *view)
{
    for (; s->seen < view->count; s->seen++) {
        AUTO(free) char *key = distribution_key(view->trials[s->seen]->params);
        json_int_t before = json_integer_value(json_object_get(s->tried, key));
        json_object_set_new(s->tried, key, json_integer(before + 1));
    }
}

json_t *sampler_next(struct sampler *s, const struct trial_view *view)
{
    sampler_see(s, view);
    return s->ops->next(s, view);
}

json_t *sampler_save(const struct sampler *s)
{
    return s->ops->save ? s->ops->save(s) : NULL;
}

double sampler_seconds(const struct sampler *s, size_t ended)
{
    return s->ops->seconds ? s->ops->seconds(s, ended) : 0;
}

int sampler_best(struct sampler *s, const struct trial_view *view)
{
    return s->ops->best ? s->ops->best(s, view) : -1;
}

void sampler_restore(struct sampler *s, const json_t *learnt)
{
    if (s->ops->restore && learnt)
        s->ops->restore(s, learnt);
}

int sampler_times(const struct sampler *s, const json_t *params)
{
    AUTO(free) char *key = distribution_key(params);
    return (int)json_integer_value(json_object_get(s->tried, key));
}

bool sampler_tried(const struct sampler *s, const json_t *params)
{
    return sampler_times(s, params) >= s->task.repeats;
}
