#include <time.h>

#include "common/rng.h"
#include "hpo/samplers/sampler.h"
#include "hpo/space/distribution.h"
#include "hpo/space/space.h"
#include "tests/unit/kit_bayes.h"

static void check_same(const json_t *got, const json_t *want, const char *what, uint64_t seed)
{
    if (json_equal(got, want))
        return;
    AUTO(free) char *a = json_line(got), *b = json_line(want);
    FAIL("%s, seed %d, trial %zu: %s, expected %s", what, (int)seed, kit_count, a, b);
}

static const char plane[] = "[{'name':'x','type':'float','low':-5,'high':10},"
                            "{'name':'y','type':'float','low':0,'high':15}]";

static const char mixed[] =
    "[{'name':'m','type':'cat','choices':['svm','forest','knn']},"
    "{'name':'lr','type':'float','low':0.0001,'high':1,'log':true},"
    "{'name':'c','type':'float','low':0,'high':1,'when':{'param':'m','in':['svm']}},"
    "{'name':'d','type':'int','low':1,'high':9,'when':{'param':'m','in':['forest','knn']}},"
    "{'name':'deep','type':'cat','choices':[true,false],'when':{'param':'d','in':[3,4,5]}}]";

/* A loss that depends on all parameters; the best is a forest of d = 4, deep, and lr = 0.01. */
static double loss(const json_t *p)
{
    const char *m = kit_text(p, "m");
    double v = pow(log10(kit_number(p, "lr")) + 2, 2);
    if (*m == 's')
        return v + 1 + pow(kit_number(p, "c") - 0.3, 2);
    v += *m == 'k' ? 0.5 : 0;
    v += 0.1 * pow(kit_number(p, "d") - 4, 2);
    return v + (json_is_true(json_object_get(p, "deep")) ? 0 : 0.3);
}

/* ---- reproducibility ------------------------------------------------------------------------ */

TEST(the_same_seed_and_the_same_tells_give_the_same_asks)
{
    static json_t *first[30];
    struct kit_bayes w;
    for (int round = 0; round < 2; round++) {
        kit_bayes_begin(&w, mixed, NULL, 5);
        for (int i = 0; i < 30; i++) {
            const struct trial *t = kit_bayes_ask(&w);
            if (round == 1)
                check_same(t->params, first[i], "a second run", 5);
            else
                first[i] = json_incref(t->params);
            kit_done(kit_trials[i], loss(t->params));
        }
        kit_bayes_end(&w);
    }
    for (int i = 0; i < 30; i++)
        json_decref(first[i]);
}

TEST(another_seed_gives_other_asks)
{
    struct kit_bayes a, b;
    int same = 0;
    kit_bayes_begin(&a, plane, NULL, 5);
    kit_bayes_begin(&b, plane, NULL, 6);
    for (int i = 0; i < 20; i++) {
        AUTO(json) json_t *other = kit_bayes_next(b.sampler);
        struct trial *t = kit_bayes_ask(&a);
        same += json_equal(t->params, other);
        kit_done(t, pow(kit_number(t->params, "x"), 2));
    }
    CHECK(same < 10); /* both know where the best must be */
    kit_bayes_end(&a);
    kit_bayes_end(&b);
}

TEST(other_tells_give_other_asks)
{
    struct kit_bayes w;
    json_t *p[2];
    for (int round = 0; round < 2; round++) {
        kit_bayes_begin(&w, plane, NULL, 5);
        for (int i = 0; i < 9; i++) {
            struct trial *t = kit_bayes_ask(&w);
            double off = kit_number(t->params, "x") - (round ? -2 : 7);
            kit_done(t, off * off);
        }
        p[round] = kit_bayes_next(w.sampler);
        kit_bayes_end(&w);
    }
    CHECK(!json_equal(p[0], p[1]));
    CHECK(kit_number(p[0], "x") > kit_number(p[1], "x"));
    json_decref(p[0]);
    json_decref(p[1]);
}

TEST(asking_which_trial_is_best_changes_no_ask)
{
    static json_t *first[25];
    struct kit_bayes w;
    for (int round = 0; round < 2; round++) {
        kit_bayes_begin(&w, plane, NULL, 5);
        for (int i = 0; i < 25; i++) {
            struct trial *t = kit_bayes_ask(&w);
            struct trial_view v = kit_view();
            if (round == 0)
                first[i] = json_incref(t->params);
            else
                check_same(t->params, first[i], "between questions", 5);
            if (round == 1 && i % 3 == 0)
                sampler_best(w.sampler, &v);
            kit_done(t, sin(kit_number(t->params, "x")) + (i % 5 == 0));
        }
        kit_bayes_end(&w);
    }
    for (int i = 0; i < 25; i++)
        json_decref(first[i]);
}

TEST(asking_what_it_expects_tells_the_function_and_changes_no_ask)
{
    static json_t *first[25];
    struct kit_bayes w;
    for (int round = 0; round < 2; round++) {
        kit_bayes_begin(&w, plane, NULL, 5);
        double u[2] = {0.5, 0.5}, earlier = 0; /* the point of the last trial, and its loss */
        CHECK_INT(space_dims(w.space), 2);
        for (int i = 0; i < 25; i++) {
            struct trial *t = kit_bayes_ask(&w);
            struct trial_view v = kit_view();
            struct sampler_prediction p;
            if (round == 0)
                first[i] = json_incref(t->params);
            else
                check_same(t->params, first[i], "between questions", 5);
            bool has_model = round == 1 && sampler_predict(w.sampler, &v, u, 1, &p);
            CHECK_INT(has_model, round == 1 && i >= 8);
            if (has_model) {
                CHECK(p.low <= p.median && p.median <= p.high);
                CHECK_NEAR(p.median, earlier, 0.1 + 0.1 * earlier);
            }
            CHECK_INT(space_unit(w.space, t->params, u, NULL), 0);
            earlier = pow(kit_number(t->params, "x"), 2);
            kit_done(t, earlier);
        }
        kit_bayes_end(&w);
    }
    for (int i = 0; i < 25; i++)
        json_decref(first[i]);
}

/* A trial reports or ends, at random. */
static void advance(struct trial *t, struct rng *r, double pruned)
{
    double final = loss(t->params), step = (double)t->curve.count + 1;
    if (step > 1 && rng_unit(r) < pruned) {
        kit_end(t, TRIAL_PRUNED);
    } else if (rng_unit(r) < 0.05) {
        kit_end(t, TRIAL_OOM);
    } else {
        kit_report(t, step, final + 2 / step);
        if (step == 4)
            kit_end(t, TRIAL_DONE);
    }
}

struct plan { /* a search that is restarted at each trial */
    uint64_t seed;
    size_t trials, batch;
    double pruned; /* number of restarts at a report */
};

static void check_restarts(const struct plan *plan)
{
    struct kit_bayes w;
    struct rng r;
    AUTO(json) json_t *saved = NULL;
    kit_bayes_begin(&w, mixed, NULL, plan->seed);
    rng_seed(&r, plan->seed, 77);
    while (kit_count < plan->trials) {
        size_t running = 0, which = rng_below(&r, plan->batch), at = 0;
        for (size_t i = 0; i < kit_count; i++)
            running += !trial_is_ended(kit_trials[i]->state);
        if (running < plan->batch) {
            AUTO(sampler) struct sampler *again = sampler_new(kit_sampler("bayes"), &w.task);
            sampler_restore(again, saved);
            AUTO(json) json_t *p = kit_bayes_next(again);
            const struct trial *t = kit_bayes_ask(&w);
            check_same(p, t->params, "restored", plan->seed);
            json_t *news = sampler_save(w.sampler);
            if (news) { /* as a store keeps it */
                AUTO(free) char *text = json_line(news);
                json_decref(news);
                json_decref(saved);
                saved = json_loads(text, 0, NULL);
                CHECK(strlen(text) < 8192);
            }
            continue;
        }
        for (size_t i = 0; i < kit_count; i++)
            if (!trial_is_ended(kit_trials[i]->state) && at++ == which)
                advance(kit_trials[i], &r, plan->pruned);
    }
    CHECK(saved != NULL);
    kit_bayes_end(&w);
}

enum { RESTARTS = KIT_SEEDS > 1 ? 40 : 20 };

TEST(asks_between_ends_leave_nothing_behind)
{
    check_restarts(&(struct plan){.seed = 30, .trials = 40, .batch = 2});
}

TEST(restarted_before_any_trial_the_search_goes_on_as_if_it_had_not_been)
{
    check_restarts(&(struct plan){.seed = 1, .trials = KIT_SEEDS > 1 ? 25 : 14, .batch = 1});
    check_restarts(&(struct plan){.seed = 2, .trials = RESTARTS, .batch = 1, .pruned = 0.2});
}

TEST(restarted_with_four_trials_under_way_it_goes_on_likewise)
{
    check_restarts(&(struct plan){.seed = 3, .trials = RESTARTS, .batch = 4, .pruned = 0.2});
}

TEST(what_was_learnt_elsewhere_is_ignored_where_it_makes_no_sense)
{
    static const char *const bad[] = {
        "null",
        "[]",
        "3",
        "{}",
        "{'models':3}",
        "{'models':[]}",
        "{'models':[null]}",
        "{'models':[{'n':9,'warp':0,'params':[[1],[2]]}]}",
    };
    struct kit_bayes w;
    kit_bayes_begin(&w, mixed, NULL, 4);
    for (int i = 0; i < 15; i++) {
        struct trial *t = kit_bayes_ask(&w);
        kit_done(t, loss(t->params));
    }
    AUTO(sampler) struct sampler *fresh = sampler_new(kit_sampler("bayes"), &w.task);
    AUTO(json) json_t *want = kit_bayes_next(fresh);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        AUTO(json) json_t *learnt = kit_json(bad[i]);
        AUTO(sampler) struct sampler *s = sampler_new(kit_sampler("bayes"), &w.task);
        sampler_restore(s, learnt);
        AUTO(json) json_t *p = kit_bayes_next(s);
        check_same(p, want, bad[i], 4);
    }
    kit_bayes_end(&w);
}

/* ---- finite spaces -------------------------------------------------------------------------- */

/* 24 points: m is svm (c: 8 values), or forest, or knn (d: 4 values, k: 2). */
static const char small[] =
    "[{'name':'m','type':'cat','choices':['svm','forest','knn']},"
    "{'name':'c','type':'int','low':1,'high':8,'when':{'param':'m','in':['svm']}},"
    "{'name':'d','type':'int','low':1,'high':4,'when':{'param':'m','in':['forest','knn']}},"
    "{'name':'k','type':'cat','choices':['a','b'],'when':{'param':'m','in':['forest','knn']}}]";

static double small_loss(const json_t *p)
{
    return *kit_text(p, "m") == 's' ? kit_number(p, "c") : 3 * kit_number(p, "d");
}

/* Exhausts `small` with `batch` trials at once; each point `repeats` times. */
static void check_exhausts(uint64_t seed, size_t batch, int repeats)
{
    struct kit_bayes w;
    AUTO(json) json_t *times = json_object();
    kit_bayes_begin(&w, small, NULL, seed);
    sampler_free(w.sampler);
    w.task.repeats = repeats;
    w.task.batch = (int)batch;
    w.sampler = sampler_new(kit_sampler("bayes"), &w.task);
    CHECK_INT(space_count(w.space), 24);
    size_t ended = 0, all = 24 * (size_t)repeats;
    while (kit_count < all) {
        const struct trial *t = kit_bayes_ask(&w);
        CHECK(t != NULL);
        AUTO(free) char *key = distribution_key(t->params);
        json_int_t before = json_integer_value(json_object_get(times, key));
        if (before == repeats)
            FAIL("seed %d: %s again", (int)seed, key);
        json_object_set_new(times, key, json_integer(before + 1));
        for (; kit_count - ended >= batch; ended++)
            kit_done(kit_trials[ended], small_loss(kit_trials[ended]->params));
    }
    CHECK(!kit_bayes_ask(&w) && !kit_bayes_ask(&w));
    CHECK_INT(json_object_size(times), 24);
    for (; ended < kit_count; ended++)
        kit_done(kit_trials[ended], 1);
    CHECK(!kit_bayes_ask(&w));
    kit_bayes_end(&w);
}

TEST(twenty_four_points_come_once_each_then_none_one_at_a_time_or_eight)
{
    for (uint64_t seed = 0; seed < (KIT_SEEDS + 1) / 2; seed++) {
        check_exhausts(seed, 1, 1);
        check_exhausts(seed, 8, 1);
    }
}

TEST(with_repeats_of_two_each_point_comes_twice_then_none)
{
    check_exhausts(7, 8, 2);
}

TEST(larger_spaces_end_too)
{
    struct kit_bayes w;
    kit_bayes_begin(
        &w,
        "[{'name':'a','type':'int','low':1,'high':60},{'name':'b','type':'cat','choices':"
        "[1,2,4]}]",
        "['a * b <= 60']", 3);
    size_t all = (size_t)space_count(w.space);
    CHECK_INT(all, 60 + 30 + 15);
    AUTO(json) json_t *seen = json_object();
    for (size_t i = 0; i < all; i++) {
        struct trial *t = kit_bayes_ask(&w);
        CHECK(t != NULL);
        AUTO(free) char *key = distribution_key(t->params);
        CHECK(!json_object_get(seen, key));
        json_object_set_new(seen, key, json_true());
        kit_done(t, fabs(kit_number(t->params, "a") - 20));
    }
    CHECK(!kit_bayes_ask(&w));
    kit_bayes_end(&w);
}

TEST(spaces_of_one_point_and_of_constants_are_one_trial)
{
    static const char *const spaces[] = {"[{'name':'a','type':'int','low':3,'high':3}]",
                                         "[{'name':'a','type':'cat','choices':['x']}]",
                                         "{'a':{'value':3},'b':{'value':'text'}}",
                                         "{'a':{'values':[2,2]},'b':{'values':[1]}}"};
    for (size_t i = 0; i < COUNT_OF(spaces); i++) {
        struct kit_bayes w;
        kit_bayes_begin(&w, spaces[i], NULL, 1);
        struct trial *t = kit_bayes_ask(&w);
        CHECK(t != NULL);
        CHECK(!kit_bayes_ask(&w));
        kit_done(t, 1);
        CHECK(!kit_bayes_ask(&w));
        kit_bayes_end(&w);
    }
}

TEST(of_a_million_billion_countable_points_none_comes_twice)
{
    struct kit_bayes w;
    kit_bayes_begin(&w,
                    "[{'name':'a','type':'int','low':1,'high':100000000},"
                    "{'name':'b','type':'int','low':1,'high':10000000}]",
                    NULL, 2);
    CHECK_NEAR(space_count(w.space), 1e15, 0);
    for (int i = 0; i < 40; i++) {
        struct trial *t = kit_bayes_ask(&w);
        CHECK(t != NULL);
        for (int k = 0; k < i; k++)
            CHECK(!json_equal(kit_trials[k]->params, t->params));
        kit_done(t, pow(kit_number(t->params, "a") / 1e8 - 0.3, 2) +
                        pow(kit_number(t->params, "b") / 1e7 - 0.6, 2));
    }
    double best = INFINITY;
    for (size_t i = 0; i < kit_count; i++)
        best = fmin(best, trial_value(kit_trials[i], false));
    CHECK(best < 1e-4);
    kit_bayes_end(&w);
}

/* ---- constraints ---------------------------------------------------------------------------- */

TEST(only_active_parameters_are_given_and_all_of_them)
{
    struct kit_bayes w;
    kit_bayes_begin(&w, mixed, NULL, 9);
    int kinds[3] = {0};
    for (int i = 0; i < 45; i++) {
        struct trial *t = kit_bayes_ask(&w);
        const char *m = kit_text(t->params, "m");
        double d = kit_number(t->params, "d");
        bool svm = *m == 's', deep = !svm && d >= 3 && d <= 5;
        CHECK_INT(json_object_size(t->params), deep ? 4 : 3);
        CHECK(!json_object_get(t->params, "c") != svm);
        CHECK(!json_object_get(t->params, "d") == svm);
        CHECK(!json_object_get(t->params, "deep") != deep);
        kinds[svm ? 0 : *m == 'f' ? 1 : 2]++;
        kit_done(t, loss(t->params));
    }
    CHECK(kinds[0] > 0 && kinds[1] > kinds[0] && kinds[1] > kinds[2]);
    kit_bayes_end(&w);
}

TEST(constraints_hold_over_sixty_asks_also_where_the_best_is_forbidden)
{
    struct kit_bayes w;
    kit_bayes_begin(&w,
                    "[{'name':'x','type':'float','low':0,'high':1},"
                    "{'name':'y','type':'float','low':0,'high':1},"
                    "{'name':'n','type':'int','low':1,'high':64,'log':true}]",
                    "['x + y <= 0.8', 'n * x < 12']", 4);
    double best = INFINITY;
    for (int i = 0; i < 60; i++) {
        struct trial *t = kit_bayes_ask(&w);
        double x = kit_number(t->params, "x"), y = kit_number(t->params, "y");
        double n = kit_number(t->params, "n");
        CHECK(x + y <= 0.8 && n * x < 12);
        double v = pow(x - 0.7, 2) + pow(y - 0.7, 2) + pow(log2(n) - 6, 2) / 36;
        best = fmin(best, v);
        kit_done(t, v);
    }
    /* On both edges: n x < 12 and x + y = 0.8. Found by a fine grid. */
    double known = INFINITY;
    for (int n = 1; n <= 64; n++)
        for (double x = 0; x < fmin(0.8, 12.0 / n); x += 1e-4)
            known = fmin(known, pow(x - 0.7, 2) + pow(fmin(0.8 - x, 0.7) - 0.7, 2) +
                                    pow(log2(n) - 6, 2) / 36);
    printf("# best %.5f, known %.5f\n", best, known);
    CHECK(best < known + 0.005);
    kit_bayes_end(&w);
}

/* ---- odd objectives ------------------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* All are different, and each is in the space. */
static void check_distinct(const struct kit_bayes *w)
{
    for (size_t i = 0; i < kit_count; i++) {
        double u[8];
        struct err e = {0};
        CHECK_INT(space_unit(w->space, kit_trials[i]->params, u, &e), 0);
        for (size_t k = 0; k < i; k++)
            CHECK(!json_equal(kit_trials[i]->params, kit_trials[k]->params));
    }
}

TEST(a_constant_objective_still_gets_new_points)
{
    struct kit_bayes w;
    kit_bayes_begin(&w, plane, NULL, 1);
    double far = 0;
    for (int i = 0; i < 40; i++) {
        struct trial *t = kit_bayes_ask(&w);
        kit_done(t, 42);
        far = fmax(far, fabs(kit_number(t->params, "x") - kit_number(kit_trials[0]->params, "x")));
    }
    check_distinct(&w);
    CHECK(far > 5);
    kit_bayes_end(&w);
}

TEST(where_values_are_nan_is_learnt_and_left)
{
    struct kit_bayes w;
    kit_bayes_begin(&w, plane, NULL, 2);
    int late = 0;
    double best = INFINITY;
    for (int i = 0; i < 50; i++) {
        struct trial *t = kit_bayes_ask(&w);
        double x = kit_number(t->params, "x"), y = kit_number(t->params, "y");
        bool bad = x > 4; /* although the loss would be better there */
        late += bad && i >= 20;
        best = bad ? best : fmin(best, pow(x - 6, 2) + pow(y - 5, 2));
        kit_done(t, bad ? (double)NAN : pow(x - 6, 2) + pow(y - 5, 2));
    }
    printf("# %d of the last 30 failed; best %.3f, where 4 is the least\n", late, best);
    check_distinct(&w);
    CHECK(late <= 10 && best < 25);
    kit_bayes_end(&w);
}

TEST(though_all_trials_fail_new_points_come)
{
    struct kit_bayes w;
    kit_bayes_begin(&w, mixed, NULL, 3);
    for (int i = 0; i < 40; i++)
        kit_end(kit_bayes_ask(&w), i % 2 ? TRIAL_FAILED : TRIAL_OOM);
    check_distinct(&w);
    for (int i = 0; i < 10; i++) { /* then trials begin to succeed */
        struct trial *t = kit_bayes_ask(&w);
        kit_done(t, loss(t->params));
    }
    check_distinct(&w);
    kit_bayes_end(&w);
}

TEST(values_of_any_size_that_a_float_has_are_searched_alike)
{
    static const double scales[] = {1e-30, 1, 1e38};
    double best[COUNT_OF(scales)];
    for (size_t s = 0; s < COUNT_OF(scales); s++) {
        struct kit_bayes w;
        kit_bayes_begin(&w, plane, NULL, 4);
        best[s] = INFINITY;
        for (int i = 0; i < 25; i++) {
            struct trial *t = kit_bayes_ask(&w);
            double v =
                pow(kit_number(t->params, "x") - 2, 2) + pow(kit_number(t->params, "y") - 7, 2);
            kit_done(t, scales[s] * v);
            best[s] = fmin(best[s], v);
        }
        kit_bayes_end(&w);
        CHECK(best[s] < 0.01);
    }
}

TEST(a_thousand_pending_trials_do_not_stop_the_asks)
{
    struct kit_bayes w;
    kit_bayes_begin(&w, plane, NULL, 5);
    for (int i = 0; i < 20; i++) {
        struct trial *t = kit_bayes_ask(&w);
        kit_done(t, pow(kit_number(t->params, "x"), 2));
    }
    struct rng r;
    rng_seed(&r, 5, 1);
    while (kit_count <
           1000) /* most are added as if from elsewhere: proposing all would take long */
        kit_add(json_pack("{s:f,s:f}", "x", 15 * rng_unit(&r) - 5, "y", 15 * rng_unit(&r)));
    double start = seconds();
    for (int i = 0; i < 5; i++)
        CHECK(kit_bayes_ask(&w) != NULL);
    printf("# %.0f ms each\n", 1e3 * (seconds() - start) / 5);
    check_distinct(&w);
    kit_bayes_end(&w);
}
