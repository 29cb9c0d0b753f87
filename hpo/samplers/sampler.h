/* sampler - proposes the parameters of the next trial: the interface of all samplers.
 *
 * A proposal depends only on the sampler's task, on the trials so far and, if the sampler has a
 * model, on the state that sampler_save() returned last. With this state the sampler continues
 * after a restart. In a space of countable points, a point is not proposed more than `repeats`
 * times while another point may still be proposed. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"
#include "hpo/spec/spec.h"
#include "hpo/stoppers/stopper.h"
#include "hpo/trial/trial.h"

struct space;
struct sampler;
struct sampler_ops;

struct sampler_objective { /* a metric and its goal */
    const char *metric;
    bool maximize;
    bool last; /* the last value of a trial counts; false: the best one */
};

struct sampler_task { /* what to search; all pointers are borrowed and must outlive the sampler */
    const struct space *space;
    uint64_t seed;
    int repeats; /* number of trials that a point may have; 0 means 1 */
    /* The values of the first objective are the points of a trial. For the other objectives, the
     * last value in the trial's `metrics` counts. */
    const struct sampler_objective *objectives;
    size_t objective_count;
    const struct outcomes *outcomes; /* NULL: no constraints on what trials measure */
    int max_iter; /* the step at which a complete trial ends, for forecasts; 0: not known */
    /* hints: number of trials; number of trials at the same time; 0: not known */
    int budget, batch;
    const json_t *warm_start; /* observations for a warm start (warm_start.h); NULL: none */
};

/* Returns the i-th method in the order of help texts, or NULL if there are not more than i
 * methods. */
const struct spec_method *sampler_method(size_t i);
/* Returns the sampler of a method that sampler_method() has returned. */
const struct sampler_ops *sampler_of(const struct spec_method *method);

/* Fills in the task for the sweep `s`. `stopper` may be NULL. Writes the objectives to
 * objectives[SPEC_METRICS_MAX]. The task borrows all arguments. */
void sampler_task_of_spec(struct sampler_task *task, struct sampler_objective *objectives,
                          const struct spec *s, const struct stopper *stopper);

/* Writes a trial's value for each objective to y[0 … count - 1]. A value is negated if its goal is
 * to maximise, so smaller is better. The first objective's value is trial_value(), the best or the
 * last one; for the others the last reported value counts. Returns false and leaves y unchanged if
 * a value is missing or not finite. The trial's state makes no difference: the caller decides if a
 * failed trial counts. */
bool sampler_values(const struct sampler_objective *objectives, size_t count, const struct trial *t,
                    double *y);

struct sampler *sampler_new(const struct sampler_ops *ops, const struct sampler_task *task);
void sampler_free(struct sampler *s);
AUTO_DEFINE(sampler, struct sampler *, sampler_free)

/* Returns the next trial's parameters (new reference), or NULL if the space is exhausted. Trials
 * may only be added to `view` between calls. */
json_t *sampler_next(struct sampler *s, const struct trial_view *view);

/* Returns about how many seconds sampler_next() takes after `ended` trials. The number is the same
 * on all hosts, since decisions depend on it. */
double sampler_seconds(const struct sampler *s, size_t ended);

/* Predicts the first objective at the n points `u` (rows of space_dims()), in the units of its
 * metric: the median, and the bounds between which a trial's mean lies with a probability of 95 %.
 * Returns false if the sampler has no model, or not yet. The model learns from at most 400 of the
 * trials. Costs about 20 us per point. */
struct sampler_prediction {
    double median, low, high;
};
bool sampler_predict(struct sampler *s, const struct trial_view *view, const double *u, size_t n,
                     struct sampler_prediction *out);

/* Returns the model state (new reference, a few kB at most), or NULL if it has not changed since
 * the last sampler_save(). The trials alone do not determine this state. The caller stores it with
 * the proposed trial and passes it to sampler_restore() after a restart. */
json_t *sampler_save(const struct sampler *s);
/* Restores a model state. A state that does not fit is ignored. */
void sampler_restore(struct sampler *s, const json_t *model_state);

/* Returns the id of the recommended trial: the best one by the model, without the noise of its
 * value. Returns -1 if no model judges better than the values themselves. */
int sampler_best(struct sampler *s, const struct trial_view *view);

/* Returns what the next trial does if that is not what the sampler is for, such as "the first 20
 * values are equal: exploring"; the caller frees it. NULL: nothing. Costs O(trials log trials). */
char *sampler_note(struct sampler *s, const struct trial_view *view);

/* Counts the trials that are new since the last call. sampler_next() does this, too. */
void sampler_observe(struct sampler *s, const struct trial_view *view);
/* sampler_times() returns the number of observed trials with these parameters. sampler_tried()
 * returns true if this is the number of trials that a point may have. Both cost as much as writing
 * the parameters as text. */
int sampler_times(const struct sampler *s, const json_t *params);
bool sampler_tried(const struct sampler *s, const json_t *params);
