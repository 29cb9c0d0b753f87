/* The search on plateaus, where the values that are known say nothing. */
#include <string.h>

#include "common/rng.h"
#include "hpo/samplers/sampler.h"
#include "tests/unit/kit_bayes.h"

static const char plane[] = "[{'name':'x','type':'float','low':-5,'high':10},"
                            "{'name':'y','type':'float','low':0,'high':15}]";

/* Values of trial i that say nothing about its parameters. */
static double nothing(int kind, int i, struct rng *r)
{
    return kind == 0 ? 2.3025 : kind == 1 ? 10 + (i % 3 == 2) * rng_unit(r) : 1 + rng_unit(r);
}

TEST(while_values_say_nothing_trials_fill_the_space_as_sobol_does_and_this_is_said)
{
    static const char *const say[] = {"are equal: exploring", "are the best one: exploring",
                                      "say no more than their mean: exploring"};
    for (int kind = 0; kind < 3; kind++) {
        struct kit_bayes w;
        struct rng r;
        int even = 0;
        kit_bayes_begin(&w, plane, NULL, 1);
        rng_seed(&r, 9, (uint64_t)kind);
        AUTO(sampler) struct sampler *sobol = sampler_new(kit_sampler("sobol"), &w.task);
        for (int i = 0; i < 60; i++) {
            AUTO(json) json_t *p = kit_bayes_next(sobol);
            struct trial *t = kit_bayes_ask(&w);
            even += json_equal(p, t->params);
            kit_done(t, nothing(kind, i, &r));
        }
        struct trial_view v = kit_view();
        AUTO(free) char *note = sampler_note(w.sampler, &v);
        printf("# %d of 60 are Sobol's; %s\n", even, note ? note : "no note");
        CHECK(even >= (kind == 2 ? 12 : 60)); /* one other point shifts all that follow */
        CHECK(note && strstr(note, say[kind]) && strstr(note, "the first 60 values"));
        kit_done(kit_bayes_ask(&w), -5); /* better than all others: here the model goes on */
        AUTO(json) json_t *more = kit_bayes_next(w.sampler);
        CHECK(more != NULL);
        v = kit_view();
        AUTO(free) char *none = sampler_note(w.sampler, &v);
        CHECK(!none);
        kit_bayes_end(&w);
    }
}

TEST(on_a_plateau_places_where_trials_fail_are_left_too)
{
    struct kit_bayes w;
    int late = 0;
    kit_bayes_begin(&w, plane, NULL, 2);
    for (int i = 0; i < 50; i++) {
        struct trial *t = kit_bayes_ask(&w);
        bool bad = kit_number(t->params, "x") > 4;
        late += bad && i >= 20;
        kit_done(t, bad ? (double)NAN : 7);
    }
    printf("# %d of the last 30 failed\n", late);
    CHECK(late <= 5);
    kit_bayes_end(&w);
}

TEST(restarted_on_a_plateau_of_noise_it_goes_on_likewise)
{
    struct kit_bayes w;
    struct rng r;
    AUTO(json) json_t *saved = NULL;
    kit_bayes_begin(&w, plane, NULL, 4);
    rng_seed(&r, 4, 4);
    for (int i = 0; i < 60; i++) {
        AUTO(sampler) struct sampler *again = sampler_new(kit_sampler("bayes"), &w.task);
        sampler_restore(again, saved);
        AUTO(json) json_t *p = kit_bayes_next(again);
        struct trial *t = kit_bayes_ask(&w);
        CHECK(json_equal(p, t->params));
        json_t *news = sampler_save(w.sampler);
        if (news) {
            json_decref(saved);
            saved = news;
        }
        kit_done(t, rng_unit(&r));
    }
    kit_bayes_end(&w);
}
