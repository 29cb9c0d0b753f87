/* study_in - what a study is made of; for study*.c alone. */
#ifndef DROVER_STUDY_INTERNAL_H
#define DROVER_STUDY_INTERNAL_H

#include "hpo/samplers/sampler.h"
#include "hpo/space/config_node.h"
#include "hpo/spec/spec.h"
#include "hpo/stoppers/stopper.h"
#include "hpo/study/study.h"

struct study {
    struct space *space;
    struct spec_stop stop;
    const struct stopper_ops *stopper; /* NULL: nothing is stopped early */
    struct sampler_goal goals[SPEC_METRICS_MAX];
    size_t goal_count;
    char **names; /* strv: of the goals */
    bool named;   /* `metrics` were given: results have `values`, not one `value` */
    struct sampler *sampler;
    struct trial **trials; /* by id */
    size_t count, cap;
    int ended_count;
};

/* Adds a waiting trial, which takes its own reference of `params`. */
struct trial *study_add_trial(struct study *s, json_t *params);

/* The trial that a request's `id` names; NULL: there is none, or `ev` means nothing for it now. */
struct trial *study_find_trial(const struct study *s, const struct config_node *n,
                               enum trial_event ev, struct err *e);

/* A request's `step`; `*out` stays where there is none.
 *   -EINVAL  it is no number, or is negative */
int study_read_step(double *out, const struct config_node *n, struct err *e);

/* A request's `key` as a number, which may be "nan", "inf", "-inf". */
int study_read_value(double *out, const struct config_node *n, const char *key, struct err *e);

/* {"op":"tell"}: all its results, or none of them. */
json_t *study_tell(struct study *s, const struct config_node *n, struct err *e);

#endif
