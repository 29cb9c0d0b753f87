#include "hpo/samplers/sampler.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "common/json.h"
#include "hpo/samplers/sampler_internal.h"
#include "hpo/space/distribution.h"

/* The table of samplers, in the order of help texts and hints. */
extern const struct sampler_ops sampler_bayes, sampler_grid;

static const struct sampler_ops *const rows[] = {
    &sampler_bayes,
    &sampler_sobol,
    &sampler_random,
    &sampler_grid,
};

const struct spec_method *sampler_method(size_t i)
{
    return i < COUNT_OF(rows) ? &rows[i]->method : NULL;
}

const struct sampler_ops *sampler_of(const struct spec_method *method)
{
    size_t i = 0;
    while (&rows[i]->method != method) {
        i++;
        assert(i < COUNT_OF(rows));
    }
    return rows[i];
}

void sampler_task_of_spec(struct sampler_task *task, struct sampler_objective *objectives,
                          const struct spec *s, const struct stopper *stopper)
{
    for (int i = 0; i < s->metric_count; i++)
        objectives[i] = (struct sampler_objective){.metric = s->metrics[i].name,
                                                   .maximize = s->metrics[i].maximize,
                                                   .last = s->value_last};
    *task = (struct sampler_task){
        .space = s->space,
        .seed = s->seed,
        .repeats = s->repeats,
        .objectives = objectives,
        .objective_count = (size_t)s->metric_count,
        .outcomes = &s->outcomes,
        .max_iter = stopper_max_iter(stopper),
        .budget = s->run_cap,
        .batch = s->parallel,
        .warm_start = s->warm_start,
    };
}

static double value(const struct sampler_objective *objectives, size_t i, const struct trial *t)
{
    double v;
    if (i == 0)
        return trial_value(t, objectives->last);
    const json_t *last = json_object_get(t->metrics, objectives[i].metric);
    return json_as_number(&v, last) == 0 ? v : (double)NAN;
}

bool sampler_values(const struct sampler_objective *objectives, size_t count, const struct trial *t,
                    double *y)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(value(objectives, i, t)))
            return false;
    for (size_t i = 0; i < count; i++)
        y[i] = objectives[i].maximize ? -value(objectives, i, t) : value(objectives, i, t);
    return true;
}

struct sampler *sampler_new(const struct sampler_ops *ops, const struct sampler_task *task)
{
    struct sampler *s = xzalloc(sizeof *s);
    s->ops = ops;
    s->task = *task;
    s->task.repeats = task->repeats > 0 ? task->repeats : 1;
    s->tried = json_object();
    s->state = ops->state_new ? ops->state_new(s) : NULL;
    return s;
}

void sampler_free(struct sampler *s)
{
    if (!s)
        return;
    if (s->ops->state_free)
        s->ops->state_free(s->state);
    json_decref(s->tried);
    free(s);
}

void sampler_observe(struct sampler *s, const struct trial_view *view)
{
    for (; s->observed < view->count; s->observed++) {
        AUTO(free) char *key = distribution_key(view->trials[s->observed]->params);
        json_int_t before = json_integer_value(json_object_get(s->tried, key));
        json_object_set_new(s->tried, key, json_integer(before + 1));
    }
}

json_t *sampler_next(struct sampler *s, const struct trial_view *view)
{
    sampler_observe(s, view);
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

char *sampler_note(struct sampler *s, const struct trial_view *view)
{
    return s->ops->note ? s->ops->note(s, view) : NULL;
}

bool sampler_predict(struct sampler *s, const struct trial_view *view, const double *u, size_t n,
                     struct sampler_prediction *out)
{
    return s->ops->predict && s->ops->predict(s, view, u, n, out);
}

void sampler_restore(struct sampler *s, const json_t *model_state)
{
    if (s->ops->restore && model_state)
        s->ops->restore(s, model_state);
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
