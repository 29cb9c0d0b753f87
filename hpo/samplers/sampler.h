/* sampler - proposes the parameters of the next trial: the interface of all samplers.
 *
 * A proposal follows from the sampler's task and from the trials so far; if the sampler has a
 * model, also from the state that sampler_save() returned last, with which it continues after a
 * restart. While a space of countable points has a point that was not tried as often as it may be,
 * no point is proposed that was. */
#ifndef DROVER_SAMPLER_H
#define DROVER_SAMPLER_H

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
    bool last; /* a trial's last value counts, not its best */
};

struct sampler_task { /* what is searched. Borrows; all of it outlives the sampler */
    const struct space *space;
    uint64_t seed;
    int repeats; /* how many trials a point may have; 0 is 1 */
    /* The first objective's values are a trial's points; of the others a trial's `metrics` has the
     * last value. */
    const struct sampler_objective *objectives;
    size_t objective_count;
    int max_iter;      /* the step at which a whole trial ends, for forecasts; 0: not known */
    int budget, batch; /* hints: number of trials, trials at once; 0: not known */
    const json_t *warm_start; /* observations for a warm start (warm_start.h); NULL: none */
};

/* The i-th method in the order of help texts; NULL: there are only i. */
const struct spec_method *sampler_method(size_t i);
/* The sampler of a method that sampler_method() returned. */
const struct sampler_ops *sampler_of(const struct spec_method *method);

/* Fills the task of the sweep *s, whose stopper may be NULL. Its objectives go to
 * objectives[SPEC_METRICS_MAX]. The task borrows all of them. */
void sampler_task_of_spec(struct sampler_task *task, struct sampler_objective *objectives,
                          const struct spec *s, const struct stopper *stopper);

struct sampler *sampler_new(const struct sampler_ops *ops, const struct sampler_task *task);
void sampler_free(struct sampler *s);
AUTO_DEFINE(sampler, struct sampler *, sampler_free)

/* Returns the next trial's parameters: a new reference, or NULL: the space is exhausted. `view`
 * only ever grows from call to call. */
json_t *sampler_next(struct sampler *s, const struct trial_view *view);

/* About how long sampler_next() takes with `ended` trials, in seconds. The figure is the same on
 * every machine, since decisions follow from it. */
double sampler_seconds(const struct sampler *s, size_t ended);

/* Returns the model state that was learned since the last sampler_save() and that the trials alone
 * would not give again: a new reference, a few kB at most. NULL: nothing is new, the state saved
 * last stays valid. It is kept with the trial that was proposed, and given to sampler_restore()
 * after a restart. */
json_t *sampler_save(const struct sampler *s);
/* Ignores a state that does not fit. */
void sampler_restore(struct sampler *s, const json_t *model_state);

/* Returns the recommended trial: the best one by the model, without the noise of its value. -1:
 * there is no model that knows better than the values. */
int sampler_best(struct sampler *s, const struct trial_view *view);

/* Counts the trials that are new since the last call, as sampler_next() does first. */
void sampler_observe(struct sampler *s, const struct trial_view *view);
/* The number of observed trials that have these parameters; and whether there are as many of them
 * as there may be. Cost: that of the text of the parameters. */
int sampler_times(const struct sampler *s, const json_t *params);
bool sampler_tried(const struct sampler *s, const json_t *params);

#endif
