#include "hpo/samplers/bayes_observations.h"

#include <time.h>

#include "common/rng.h"
#include "tests/unit/kit_trials.h"

enum { FIRST = 3 };

static const char line[] = "[{'name':'x','type':'float','low':0,'high':1}]";
static const struct sampler_objective minimise = {.metric = "y"};

struct world { /* everything that observations need */
    struct space *space;
    struct bayes_features *seen;
    struct sampler_task task;
    struct bayes_observations *past;
};

static void begin(struct world *w, const struct sampler_objective *objectives,
                  size_t objective_count)
{
    w->space = kit_space(line, NULL);
    w->seen = bayes_features_new(w->space);
    w->task = (struct sampler_task){
        .space = w->space, .objectives = objectives, .objective_count = objective_count};
    w->past = bayes_observations_new(&w->task, w->seen, FIRST);
}

static void end(struct world *w)
{
    bayes_observations_free(w->past);
    bayes_features_free(w->seen);
    space_free(w->space);
    kit_clear();
}

static const struct bayes_observations *look(const struct world *w)
{
    struct trial_view v = kit_view();
    bayes_observations_update(w->past, &v);
    return w->past;
}

static struct trial *at(double x)
{
    return kit_add(json_pack("{s:f}", "x", x));
}

/* Observation i of the first objective. */
static void check_observation(const struct bayes_observations *p, size_t i, double x, double y)
{
    CHECK(i < p->data[0].n);
    CHECK_NEAR(p->data[0].x[i], x, 1e-12);
    CHECK_NEAR(p->u[i], x, 1e-12);
    CHECK_NEAR(p->data[0].y[i], y, 1e-12);
}

TEST(before_any_trial_there_is_nothing)
{
    struct world w;
    begin(&w, &minimise, 1);
    const struct bayes_observations *p = look(&w);
    size_t best = 7;
    CHECK_INT(p->data[0].n + p->certain + p->ends.n + p->failures + p->pending_count, 0);
    CHECK_INT(bayes_observations_best(p, 0, 3, &best), 0);
    CHECK(!bayes_observations_at(p, (double[]){0.5}));
    end(&w);
}

TEST(observations_come_in_the_order_of_their_ends_not_of_their_ids)
{
    struct world w;
    begin(&w, &minimise, 1);
    for (int i = 0; i < 6; i++)
        at(i / 8.0);
    static const int order[] = {4, 1, 5, 0, 3, 2};
    for (int i = 0; i < 6; i++)
        kit_done(kit_trials[order[i]], 10 + order[i]);
    const struct bayes_observations *p = look(&w);
    CHECK_INT(p->certain, 6);
    CHECK_INT(p->data[0].n, 6);
    for (size_t i = 0; i < 6; i++) {
        check_observation(p, i, order[i] / 8.0, 10 + order[i]);
        CHECK_NEAR(p->data[0].var[i], 0, 0);
    }
    end(&w);
}

TEST(looking_after_every_end_or_once_at_the_end_is_the_same)
{
    struct world often, once;
    struct rng r;
    rng_seed(&r, 3, 0);
    begin(&often, &minimise, 1);
    for (int i = 0; i < 200; i++) {
        at(rng_unit(&r));
        for (int tries = 0; tries < 3; tries++) { /* some end, in any order */
            struct trial *t = kit_trials[rng_below(&r, kit_count)];
            if (!trial_is_ended(t->state) && rng_below(&r, 8) == 0)
                kit_end(t, TRIAL_FAILED);
            else if (!trial_is_ended(t->state))
                kit_done(t, rng_unit(&r));
        }
        look(&often);
    }
    begin(&once, &minimise, 1);
    const struct bayes_observations *a = often.past, *b = look(&once);
    CHECK(a->certain > 100 && a->failures > 5);
    CHECK_INT(a->certain, b->certain);
    CHECK_INT(a->failures, b->failures);
    CHECK_INT(a->ends.n, b->ends.n);
    CHECK_INT(a->pending_count, b->pending_count);
    for (size_t i = 0; i < a->certain; i++)
        check_observation(a, i, b->u[i], b->data[0].y[i]);
    for (size_t i = 0; i < a->ends.n; i++)
        CHECK(a->ends.y[i] == b->ends.y[i] && a->ends.x[i] == b->ends.x[i]);
    end(&often);
    bayes_observations_free(once.past);
    bayes_features_free(once.seen);
    space_free(once.space);
}

TEST(what_failed_is_an_end_of_minus_1_and_what_was_cancelled_is_nothing)
{
    static const enum trial_state bad[] = {TRIAL_FAILED, TRIAL_OOM, TRIAL_INVALID};
    struct world w;
    begin(&w, &minimise, 1);
    kit_done(at(0.25), 1);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct trial *t = at(0.5);
        kit_report(t, 1, -100); /* values of failed trials do not count */
        kit_end(t, bad[i]);
    }
    kit_end(at(0.75), TRIAL_CANCELLED);
    struct trial *t = at(0.875);
    kit_report(t, 1, -100);
    kit_end(t, TRIAL_CANCELLED);
    const struct bayes_observations *p = look(&w);
    CHECK_INT(p->data[0].n, 1);
    CHECK_INT(p->certain, 1);
    CHECK_INT(p->failures, 3);
    CHECK_INT(p->ends.n, 4);
    for (size_t i = 0; i < 4; i++) {
        CHECK_NEAR(p->ends.y[i], i == 0 ? 1 : -1, 0);
        CHECK_NEAR(p->ends.x[i], i == 0 ? 0.25 : 0.5, 0);
    }
    CHECK_INT(p->pending_count, 0);
    CHECK_INT(p->late_ends, 1); /* from number FIRST on */
    CHECK_INT(p->late_failures, 1);
    end(&w);
}

TEST(a_trial_that_only_ever_reported_nan_or_inf_has_failed)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    struct world w;
    begin(&w, &minimise, 1);
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        kit_done(at(0.1 + 0.2 * (double)i), bad[i]);
    const struct bayes_observations *p = look(&w);
    CHECK_INT(p->data[0].n, 0);
    CHECK_INT(p->failures, 3);
    end(&w);
}

TEST(what_did_not_go_the_whole_way_is_forecast_behind_what_is_certain)
{
    static const enum trial_state partial[] = {TRIAL_PRUNED,  TRIAL_PAUSED,   TRIAL_RUNNING,
                                               TRIAL_WAITING, TRIAL_STOPPING, TRIAL_PAUSING};
    struct world w;
    begin(&w, &minimise, 1);
    for (size_t i = 0; i < COUNT_OF(partial); i++) { /* with lower ids than the certain ones */
        struct trial *t = at(0.05 + 0.1 * (double)i);
        for (int step = 1; step <= 3; step++)
            kit_report(t, step, 3.0 / step);
        if (trial_is_ended(partial[i]))
            kit_end(t, partial[i]);
        t->state = partial[i];
    }
    for (int i = 0; i < 3; i++) {
        struct trial *t = at(0.9 + 0.01 * i);
        for (int step = 1; step <= 9; step++)
            kit_report(t, step, (1 + i) * 3.0 / step);
        kit_end(t, TRIAL_DONE);
    }
    const struct bayes_observations *p = look(&w);
    CHECK_INT(p->certain, 3);
    CHECK_INT(p->data[0].n, 3 + COUNT_OF(partial));
    CHECK_INT(p->pending_count, 0);
    CHECK_INT(p->ends.n, 4); /* three are done, and one was pruned: it did not fail */
    CHECK_INT(p->failures, 0);
    for (size_t i = 0; i < 3; i++) {
        check_observation(p, i, 0.9 + 0.01 * (double)i, (1 + (double)i) / 3);
        CHECK_NEAR(p->data[0].var[i], 0, 0);
    }
    for (size_t i = 3; i < p->data[0].n; i++) {
        CHECK_NEAR(p->u[i], 0.05 + 0.1 * (double)(i - 3), 1e-12);
        CHECK(p->data[0].y[i] < 1 && p->data[0].y[i] > 0); /* lower than its value so far */
        CHECK(p->data[0].var[i] > 0 && isfinite(p->data[0].var[i]));
    }
    end(&w);
}

TEST(a_forecast_is_forgotten_once_the_trial_is_done)
{
    struct world w;
    begin(&w, &minimise, 1);
    struct trial *t = at(0.5);
    kit_done(at(0.25), 1);
    kit_report(t, 1, 4);
    CHECK_INT(look(&w)->data[0].n, 2);
    CHECK_INT(w.past->certain, 1);
    kit_report(t, 2, 3);
    kit_end(t, TRIAL_DONE);
    kit_done(at(0.75), 2);
    const struct bayes_observations *p = look(&w);
    CHECK_INT(p->data[0].n, 3);
    CHECK_INT(p->certain, 3);
    check_observation(p, 0, 0.25, 1);
    check_observation(p, 1, 0.5, 3);
    check_observation(p, 2, 0.75, 2);
    end(&w);
}

TEST(what_has_said_nothing_yet_is_pending)
{
    struct world w;
    begin(&w, &minimise, 1);
    static const enum trial_state states[] = {TRIAL_WAITING, TRIAL_LEASED, TRIAL_STOPPING};
    for (size_t i = 0; i < COUNT_OF(states); i++)
        at(0.25 * (double)(i + 1))->state = states[i];
    const struct bayes_observations *p = look(&w);
    CHECK_INT(p->pending_count, 3);
    CHECK_INT(p->data[0].n, 0);
    for (size_t i = 0; i < 3; i++)
        CHECK_NEAR(p->pending[i], 0.25 * (double)(i + 1), 1e-12);
    kit_done(kit_trials[0], 1);
    p = look(&w);
    CHECK_INT(p->pending_count, 2);
    CHECK_NEAR(p->pending[0], 0.5, 1e-12);
    end(&w);
}

TEST(a_trial_outside_of_the_space_is_left_out)
{
    struct world w;
    begin(&w, &minimise, 1);
    kit_done(kit_add(kit_json("{'x':3}")), -5);
    kit_done(kit_add(kit_json("{'z':0.5}")), -5);
    kit_end(kit_add(kit_json("{'x':-0.5}")), TRIAL_FAILED);
    kit_add(kit_json("{'x':17}"));
    kit_report(kit_add(kit_json("{'x':'abc'}")), 1, 3);
    kit_done(at(0.5), 1);
    const struct bayes_observations *p = look(&w);
    CHECK_INT(p->data[0].n, 1);
    CHECK_INT(p->ends.n, 1);
    CHECK_INT(p->failures, 0);
    CHECK_INT(p->pending_count, 0);
    check_observation(p, 0, 0.5, 1);
    end(&w);
}

TEST(what_is_maximised_is_negated_forecasts_too)
{
    static const struct sampler_objective most = {.metric = "y", .maximize = true};
    struct world w;
    begin(&w, &most, 1);
    for (int i = 0; i < 8; i++) {
        struct trial *t = at(0.1 * (i + 1));
        for (int step = 1; step <= (i < 7 ? 8 : 4); step++) {
            AUTO(json) json_t *v = json_pack("{s:f}", "y", 10 + i - 5.0 / step);
            trial_report(t, step, v, "y", true);
        }
        t->state = TRIAL_RUNNING;
        if (i < 7)
            kit_end(t, TRIAL_DONE);
    }
    const struct bayes_observations *p = look(&w);
    CHECK_INT(p->data[0].n, 8);
    for (size_t i = 0; i < 7; i++)
        check_observation(p, i, 0.1 * (double)(i + 1), -(10 + (double)i - 5.0 / 8));
    CHECK(p->data[0].y[7] < -(17 - 5.0 / 4) && p->data[0].y[7] > -18); /* it still rises */
    size_t best[2];
    CHECK_INT(bayes_observations_best(p, 0, 2, best), 2);
    CHECK(best[0] == 6 && best[1] == 5); /* the certain ones only */
    end(&w);
}

static void done_with(struct trial *t, const char *metrics)
{
    AUTO(json) json_t *v = kit_json(metrics);
    trial_report(t, 1, v, "y", false);
    kit_end(t, TRIAL_DONE);
}

TEST(of_several_goals_all_have_to_be_there)
{
    static const struct sampler_objective objectives[] = {{.metric = "y"},
                                                          {.metric = "z", .maximize = true}};
    struct world w;
    begin(&w, objectives, 2);
    done_with(at(0.25), "{'y':1,'z':10}");
    done_with(at(0.5), "{'y':2}");
    done_with(at(0.5), "{'z':20}");
    done_with(at(0.5), "{'y':2,'z':'nan'}");
    done_with(at(0.75), "{'y':3,'z':30}");
    const struct bayes_observations *p = look(&w);
    for (size_t g = 0; g < 2; g++)
        CHECK_INT(p->data[g].n, 2);
    check_observation(p, 0, 0.25, 1);
    check_observation(p, 1, 0.75, 3);
    CHECK_NEAR(p->data[1].y[0], -10, 0);
    CHECK_NEAR(p->data[1].y[1], -30, 0);
    CHECK_NEAR(p->data[1].x[1], 0.75, 1e-12);
    CHECK_INT(p->failures, 3);
    end(&w);
}

TEST(with_several_goals_a_running_trial_counts_once_it_has_told_of_all)
{
    static const struct sampler_objective objectives[] = {{.metric = "y"}, {.metric = "z"}};
    struct world w;
    begin(&w, objectives, 2);
    done_with(at(0.25), "{'y':1,'z':10}");
    struct trial *t = at(0.5);
    kit_report(t, 1, 5);
    CHECK_INT(look(&w)->data[0].n, 1);
    CHECK_INT(w.past->pending_count, 1);
    AUTO(json) json_t *v = kit_json("{'y':4,'z':7}");
    trial_report(t, 2, v, "y", false);
    CHECK_INT(look(&w)->data[0].n, 2);
    CHECK_INT(w.past->pending_count, 0);
    CHECK_NEAR(w.past->data[1].y[1], 7, 0);
    end(&w);
}

TEST(the_best_are_the_smallest_in_order)
{
    struct world w;
    struct rng r;
    rng_seed(&r, 5, 0);
    begin(&w, &minimise, 1);
    for (int i = 0; i < 100; i++)
        kit_done(at(rng_unit(&r)), (double)rng_below(&r, 60)); /* some are equal */
    const struct bayes_observations *p = look(&w);
    for (size_t most = 1; most <= 120; most += 7) {
        size_t out[120], n = bayes_observations_best(p, 0, most, out), better = 0;
        CHECK_INT(n, most < 100 ? most : 100);
        for (size_t i = 1; i < n; i++)
            CHECK(p->data[0].y[out[i - 1]] <= p->data[0].y[out[i]]);
        for (size_t i = 0; i < 100; i++)
            better += p->data[0].y[i] < p->data[0].y[out[n - 1]];
        CHECK(better < n);
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < i; k++)
                CHECK(out[i] != out[k]);
    }
    end(&w);
}

TEST(a_point_side_by_side_with_an_observed_one_is_known)
{
    struct world w;
    begin(&w, &minimise, 1);
    kit_done(at(0.5), 1);
    kit_report(at(0.75), 1, 1);
    const struct bayes_observations *p = look(&w);
    CHECK(bayes_observations_at(p, (double[]){0.5 + 1e-9}));
    CHECK(bayes_observations_at(p, (double[]){0.75}));
    CHECK(!bayes_observations_at(p, (double[]){0.5 + 1e-6}));
    end(&w);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

TEST(ten_thousand_trials_are_looked_at_quickly_and_again_at_once)
{
    struct world w;
    struct rng r;
    rng_seed(&r, 6, 0);
    begin(&w, &minimise, 1);
    for (int i = 0; i < 10000; i++)
        kit_done(at(rng_unit(&r)), rng_unit(&r));
    double start = seconds();
    CHECK_INT(look(&w)->certain, 10000);
    double first = seconds() - start;
    for (int i = 0; i < 20; i++) {
        kit_done(at(rng_unit(&r)), rng_unit(&r));
        look(&w);
    }
    double next = (seconds() - start - first) / 20;
    CHECK_INT(w.past->certain, 10020);
    printf("# the first look %.1f ms, each later one %.2f ms\n", 1e3 * first, 1e3 * next);
    CHECK_TIME(first < 1 && next < 0.05); /* with a margin for sanitizers */
    end(&w);
}

TEST(where_a_running_trial_is_is_found_out_once)
{
    struct world w;
    struct rng r;
    rng_seed(&r, 7, 0);
    begin(&w, &minimise, 1);
    for (int i = 0; i < 5000; i++)
        at(i % 5 ? rng_unit(&r) : 2); /* outside of the space */
    double start = seconds(), least = INFINITY;
    CHECK_INT(look(&w)->pending_count, 4000);
    double first = seconds() - start;
    AUTO(free) double *before = xcalloc(4000, sizeof *before);
    memcpy(before, w.past->pending, 4000 * sizeof *before);
    for (int i = 0; i < 20; i++) {
        start = seconds();
        CHECK_INT(look(&w)->pending_count, 4000);
        least = fmin(least, seconds() - start);
    }
    CHECK(memcmp(before, w.past->pending, 4000 * sizeof *before) == 0);
    printf("# the first look %.2f ms, a later one %.2f ms\n", 1e3 * first, 1e3 * least);
    CHECK_TIME(least < first / 4);
    end(&w);
}
