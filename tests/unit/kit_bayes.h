/* kit_bayes - a search of the sampler bayes that minimises "y", step by step. */
#pragma once

#include "hpo/samplers/sampler.h"
#include "hpo/space/space.h"
#include "tests/unit/kit_sampler.h"
#include "tests/unit/kit_trials.h"

static const struct sampler_objective kit_minimise = {.metric = "y"};

struct kit_bayes {
    struct space *space;
    struct sampler_task task;
    struct sampler *sampler;
};

static inline void kit_bayes_begin(struct kit_bayes *w, const char *space, const char *rules,
                                   uint64_t seed)
{
    w->space = kit_space(space, rules);
    w->task = (struct sampler_task){
        .space = w->space, .seed = seed, .objectives = &kit_minimise, .objective_count = 1};
    w->sampler = sampler_new(kit_sampler("bayes"), &w->task);
}

static inline void kit_bayes_end(struct kit_bayes *w)
{
    sampler_free(w->sampler);
    space_free(w->space);
    kit_clear();
}

static inline json_t *kit_bayes_next(struct sampler *s)
{
    struct trial_view v = kit_view();
    return sampler_next(s, &v);
}

/* The next trial; NULL: exhausted. */
static inline struct trial *kit_bayes_ask(struct kit_bayes *w)
{
    json_t *p = kit_bayes_next(w->sampler);
    return p ? kit_add(p) : NULL;
}
