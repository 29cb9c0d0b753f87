/* sampler - where the next trial's parameters come from: one shape for all methods.
 *
 * What a sampler gives depends on its task and the trials that there are; and, for methods that
 * learn, on what sampler_save() gave last: with it, one goes on after a restart where it was. No
 * point is given that was tried, or is being tried, as often as it may be, while a space of
 * countable points has another. */
#ifndef DROVER_SAMPLER_H
#define DROVER_SAMPLER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"
#include "hpo/spec/spec.h"
#include "hpo/trial/trial.h"

struct space;
struct sampler;

struct sampler_goal { /* what is sought */
    const char *metric;
    bool maximize;
    bool last; /* a trial's last value counts, not its best */
};

struct sampler_task { /* what a search is for. Borrows; all of it outlives the sampler */
    const struct space *space;
    uint64_t seed;
    int repeats; /* how often each point may be tried; 0 is 1 */
    /* The first is the one whose values are a trial's points; of the others `metrics` has the last.
     */
    const struct sampler_goal *goals;
    size_t goal_count;
    const struct spec_stop *stop; /* what partial curves are judged by; NULL: nothing */
    int budget, batch;            /* hints: trials in all, trials at once; 0: not known */
    const json_t *prior; /* what other searches saw, as prior.h has it; NULL: nothing. No trials */
};

struct sampler_ops {
    const char *name; /* the word in `method:` */
    /* A method's own state; NULL where it needs none. */
    void *(*own_new)(const struct sampler *s);
    void (*own_free)(void *own);
    /* The parameters of trial number view->count: a new reference, or NULL: all points are tried.
     */
    json_t *(*next)(struct sampler *s, const struct trial_view *view);
    /* See sampler_save(); both NULL where nothing is learnt. */
    json_t *(*save)(const struct sampler *s);
    void (*restore)(struct sampler *s, const json_t *learnt);
    /* See sampler_seconds(); NULL: next() takes no time to speak of. */
    double (*seconds)(const struct sampler *s, size_t ended);
    /* See sampler_best(); NULL: nothing is known beyond the values. */
    int (*best)(struct sampler *s, const struct trial_view *view);
};

struct sampler { /* its fields are for the methods */
    const struct sampler_ops *ops;
    struct sampler_task task;
    json_t *tried; /* distribution_key() of every trial's parameters -> how often */
    size_t seen;   /* trials in `tried` */
    int round;     /* random: all points are tried so often */
    void *own;
};

/* Points in order, the last name fastest; ends with the last, or with `repeats` goes first through
 * all of them again. Needs a space of countable points. */
extern const struct sampler_ops sampler_grid;
/* Independent draws; trial i's come from the seed's stream i. Has no state of its own, so that
 * other methods can fall back on its next(). Of more than 2^20 points one may come again while an
 * untried one is left, where nearly none is. */
extern const struct sampler_ops sampler_random;
/* Points that fill the space evenly; the i-th trial has the i-th one that is allowed and untried.
 */
extern const struct sampler_ops sampler_sobol;
/* Bayesian optimisation: the point that a Gaussian process expects most of. */
extern const struct sampler_ops sampler_bayes;

/* NULL: not built in. */
const struct sampler_ops *sampler_of(enum spec_method m);

/* The task of the sweep *s. Its objectives go to goals[SPEC_METRICS_MAX]. The task borrows both. */
void sampler_task_of_spec(struct sampler_task *task, struct sampler_goal *goals,
                          const struct spec *s);

struct sampler *sampler_new(const struct sampler_ops *ops, const struct sampler_task *task);
void sampler_free(struct sampler *s);
AUTO_DEFINE(sampler, struct sampler *, sampler_free)

/* The next trial's parameters: a new reference, or NULL: the space is exhausted. `view` only ever
 * grows from call to call. */
json_t *sampler_next(struct sampler *s, const struct trial_view *view);

/* About how long sampler_next() takes with `ended` trials, in seconds: a figure that is the same on
 * every machine, for deciding. */
double sampler_seconds(const struct sampler *s, size_t ended);

/* What was learnt since the last sampler_save() and would not be found again in the trials alone: a
 * new reference, a few kB at most; NULL: nothing, what was saved last stays good. Kept with the
 * trial that it gave, and handed to sampler_restore() after a restart; what makes no sense there is
 * ignored. */
json_t *sampler_save(const struct sampler *s);
void sampler_restore(struct sampler *s, const json_t *learnt);

/* The trial that is best once chance is taken out of its value, or -1: as far as is known, that
 * with the best value. */
int sampler_best(struct sampler *s, const struct trial_view *view);

/* Counts the trials that are new since the last call, as sampler_next() does first. */
void sampler_see(struct sampler *s, const struct trial_view *view);
/* How many of the trials that it has seen had these parameters; and whether they are used up: as
 * many as there may be. Cost: that of the text of the parameters. */
int sampler_times(const struct sampler *s, const json_t *params);
bool sampler_tried(const struct sampler *s, const json_t *params);

#endif
