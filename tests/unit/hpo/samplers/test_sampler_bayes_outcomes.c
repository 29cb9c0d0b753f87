/* The search with outcome constraints, which are learned from what trials measure. */
#include <string.h>

#include "hpo/samplers/sampler.h"
#include "tests/unit/kit_bayes.h"

static const char plane[] = "[{'name':'x','type':'float','low':0,'high':1},"
                            "{'name':'y','type':'float','low':0,'high':1}]";

/* Minimise x + y where x y + c >= 0.3: the best is x = y = sqrt(0.3 - c). */
static const struct outcomes product = {.at = {{"p", 0.3, INFINITY}}, .count = 1};

static void begin(struct kit_bayes *w, const struct outcomes *outcomes, uint64_t seed)
{
    w->space = kit_space(plane, NULL);
    w->task = (struct sampler_task){.space = w->space,
                                    .seed = seed,
                                    .objectives = &kit_minimise,
                                    .objective_count = 1,
                                    .outcomes = outcomes};
    w->sampler = sampler_new(kit_sampler("bayes"), &w->task);
}

static void tell(struct trial *t, double value, const char *metric, double measured)
{
    if (metric)
        json_object_set_new(t->metrics, metric, json_number(measured));
    kit_done(t, value);
}

static double best_of(const struct outcomes *o)
{
    double best = INFINITY;
    for (size_t i = 0; i < kit_count; i++)
        if (outcome_feasible(o, kit_trials[i]->metrics))
            best = fmin(best, trial_value(kit_trials[i], false));
    return best;
}

TEST(it_finds_the_best_feasible_point_where_all_better_ones_are_not)
{
    for (uint64_t seed = 1; seed <= KIT_SEEDS; seed++) {
        struct kit_bayes w;
        begin(&w, &product, seed);
        for (int i = 0; i < 30; i++) {
            struct trial *t = kit_bayes_ask(&w);
            double x = kit_number(t->params, "x"), y = kit_number(t->params, "y");
            tell(t, x + y, "p", x * y);
        }
        double got = best_of(&product);
        printf("# %.5f; the best is %.5f\n", got, 2 * sqrt(0.3));
        CHECK(got < 2 * sqrt(0.3) + 0.005);
        kit_bayes_end(&w);
    }
}

TEST(as_long_as_nothing_is_feasible_it_goes_where_that_is_likeliest_and_says_so)
{
    const struct outcomes small = {.at = {{"d", -INFINITY, 0.002}}, .count = 1}; /* 0.6 % */
    for (uint64_t seed = 1; seed <= KIT_SEEDS; seed++) {
        struct kit_bayes w;
        int first = -1;
        bool said = false;
        begin(&w, &small, seed);
        for (int i = 0; i < 25; i++) {
            struct trial_view v = kit_view();
            AUTO(free) char *note = sampler_note(w.sampler, &v);
            said = said || (note && strstr(note, "no trial is feasible yet"));
            struct trial *t = kit_bayes_ask(&w);
            double x = kit_number(t->params, "x") - 0.83, y = kit_number(t->params, "y") - 0.21;
            tell(t, -x - y, "d", x * x + y * y);
            if (first < 0 && x * x + y * y <= 0.002)
                first = i;
        }
        printf("# the first feasible trial is %d\n", first);
        CHECK(first >= 8 && first <= 16 && said);
        kit_bayes_end(&w);
    }
}

TEST(a_metric_that_no_trial_reports_is_named_and_the_search_explores)
{
    struct kit_bayes w;
    begin(&w, &product, 3);
    for (int i = 0; i < 12; i++)
        tell(kit_bayes_ask(&w), i, NULL, 0);
    struct trial_view v = kit_view();
    AUTO(free) char *note = sampler_note(w.sampler, &v);
    CHECK_STR(note, "no trial is feasible: none has reported 'p'");
    AUTO(json) json_t *next = kit_bayes_next(w.sampler);
    AUTO(sampler) struct sampler *sobol = sampler_new(kit_sampler("sobol"), &w.task);
    AUTO(json) json_t *even = kit_bayes_next(sobol);
    CHECK(json_equal(next, even));
    kit_bayes_end(&w);
}

TEST(restarted_it_goes_on_likewise_and_the_recommended_trial_is_feasible)
{
    struct kit_bayes w;
    AUTO(json) json_t *saved = NULL;
    begin(&w, &product, 5);
    for (int i = 0; i < 24; i++) {
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
        double x = kit_number(t->params, "x"), y = kit_number(t->params, "y");
        tell(t, x + y + 0.2 * sin(1e4 * x), "p", x * y); /* as good as noise */
        struct trial_view v = kit_view();
        int best = sampler_best(w.sampler, &v);
        CHECK(best < 0 || outcome_feasible(&product, kit_trials[best]->metrics));
    }
    kit_bayes_end(&w);
}

TEST(trials_at_once_do_not_all_go_to_one_place_while_nothing_is_feasible)
{
    struct kit_bayes w;
    const struct outcomes far = {.at = {{"p", 5, INFINITY}}, .count = 1};
    begin(&w, &far, 7);
    for (int i = 0; i < 10; i++) {
        struct trial *t = kit_bayes_ask(&w);
        double x = kit_number(t->params, "x"), y = kit_number(t->params, "y");
        tell(t, x, "p", -(x - 0.5) * (x - 0.5) - (y - 0.4) * (y - 0.4));
    }
    double least = INFINITY;
    size_t from = kit_count;
    for (int i = 0; i < 4; i++)
        kit_bayes_ask(&w);
    for (size_t a = from; a < kit_count; a++)
        for (size_t b = from; b < a; b++) {
            const json_t *p = kit_trials[a]->params, *q = kit_trials[b]->params;
            least = fmin(least, hypot(kit_number(p, "x") - kit_number(q, "x"),
                                      kit_number(p, "y") - kit_number(q, "y")));
        }
    printf("# the nearest two of four are %.4f apart\n", least);
    CHECK(least > 0.003);
    kit_bayes_end(&w);
}

TEST(two_objectives_have_a_front_of_feasible_trials)
{
    static const struct sampler_objective two[] = {{.metric = "y"}, {.metric = "z"}};
    const struct outcomes o = {.at = {{"p", 0.3, INFINITY}}, .count = 1};
    struct kit_bayes w;
    int feasible = 0;
    begin(&w, &o, 2);
    sampler_free(w.sampler);
    w.task.objectives = two;
    w.task.objective_count = 2;
    w.sampler = sampler_new(kit_sampler("bayes"), &w.task);
    for (int i = 0; i < 40; i++) {
        struct trial *t = kit_bayes_ask(&w);
        double x = kit_number(t->params, "x"), y = kit_number(t->params, "y");
        json_object_set_new(t->metrics, "z", json_real(y));
        tell(t, x, "p", x * y);
        feasible += i >= 8 && x * y >= 0.3 && x * y < 0.36; /* near the front, x y = 0.3 */
    }
    printf("# %d of 32 are feasible and near the front\n", feasible);
    CHECK(feasible >= 12);
    kit_bayes_end(&w);
}
