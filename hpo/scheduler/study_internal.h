/* study_internal - types and functions that study.c and study_tell.c share. */
#pragma once

#include "hpo/samplers/sampler.h"
#include "hpo/scheduler/study.h"
#include "hpo/space/config_node.h"
#include "hpo/spec/spec.h"
#include "hpo/stoppers/stopper.h"

struct study {
    struct space *space;
    struct stopper *stopper; /* NULL: no early stopping */
    struct sampler_objective objectives[SPEC_METRICS_MAX];
    size_t objective_count;
    struct sampler_task task; /* borrows what the study has */
    struct outcomes outcomes;
    char **names; /* strv of the objectives' names */
    bool named;   /* init had `metrics`: results have `values` instead of one `value` */
    struct sampler *sampler;
    struct trial **trials; /* by id */
    size_t count;
    int ended_count;
};

/* Adds a waiting trial and returns it, borrowed. The trial takes a new reference to `params`. */
struct trial *study_add_trial(struct study *s, json_t *params);

/* Returns the trial that a request's `id` names. Returns NULL and sets `e` if there is no such
 * trial, or if `ev` is not possible in its state. */
struct trial *study_find_trial(const struct study *s, const struct config_node *n,
                               enum trial_event ev, struct err *e);

/* Reads the `step` of a request. If there is none, `*out` stays unchanged.
 *   -EINVAL  not a number, or negative */
int study_read_step(double *out, const struct config_node *n, struct err *e);

/* Reads the member `key` of a request as a number, which may be "nan", "inf" or "-inf". */
int study_read_value(double *out, const struct config_node *n, const char *key, struct err *e);

/* Carries out {"op":"tell"}. Applies all results, or none if one is invalid. Returns the reply (new
 * reference), or NULL on failure. */
json_t *study_tell(struct study *s, const struct config_node *n, struct err *e);
