#include "hpo/samplers/bayes_acquisition.h"

#include <time.h>

#include "common/rng.h"
#include "hpo/model/acquisition.h"
#include "hpo/model/pareto.h"
#include "hpo/samplers/bayes_model.h"
#include "tests/unit/kit_trials.h"

enum { DIMS_MAX = 8, RANDOM = 20000, CHUNK = 500 };

struct world { /* a space, and a model of a function on it */
    struct space *space;
    struct bayes_features *seen;
    struct bayes_data data;
    struct bayes_model *model;
    double *known; /* rows: the three best points */
    struct bayes_acquisition_target target;
};

/* Bumps over the columns, none of them at the middle. */
static double bumps(const double *x, size_t cols, uint64_t which)
{
    double v = 0;
    for (size_t c = 0; c < cols; c++)
        v += sin((2 + (double)((c + which) % 3)) * 2 * x[c] + (double)which) +
             pow(x[c] - 0.1 * (double)((c * 3 + which) % 10), 2);
    return v;
}

static size_t dims(const struct world *w)
{
    return w->seen->dims;
}

/* `n` random points of the space that are allowed. */
static void begin(struct world *w, const char *space, const char *rules, size_t n, uint64_t seed)
{
    struct rng r;
    double best[3] = {INFINITY, INFINITY, INFINITY}, x[32], u[DIMS_MAX];
    *w = (struct world){.space = kit_space(space, rules)};
    w->seen = bayes_features_new(w->space);
    w->known = xcalloc(3 * dims(w), sizeof *w->known);
    rng_seed(&r, seed, 0);
    for (size_t i = 0; i < n; i++) {
        space_draw(w->space, &r, u);
        space_snap(w->space, u, NULL);
        bayes_features_columns(w->seen, u, true, x, 1);
        double y = bumps(x, w->seen->shape.cols, seed);
        bayes_model_data_add(&w->data, w->seen->shape.cols, x, y, 0);
        size_t at = 3;
        for (; at > 0 && y < best[at - 1]; at--)
            ;
        if (at == 3)
            continue;
        memmove(best + at + 1, best + at, (2 - at) * sizeof *best);
        memmove(w->known + (at + 1) * dims(w), w->known + at * dims(w),
                (2 - at) * dims(w) * sizeof *u);
        best[at] = y;
        memcpy(w->known + at * dims(w), u, dims(w) * sizeof *u);
    }
    w->model = bayes_model_new(&w->seen->shape);
    CHECK(bayes_model_update(w->model, &w->data, n));
    w->target = (struct bayes_acquisition_target){
        .space = w->seen,
        .value = w->model->gp,
        .best = output_transform_value(&w->model->transform, best[0]),
        .widen = 1};
}

static void end(struct world *w)
{
    bayes_model_free(w->model);
    bayes_model_data_free(&w->data);
    bayes_features_free(w->seen);
    space_free(w->space);
    free(w->known);
}

static struct bayes_acquisition searching(const struct world *w, uint64_t seed, double effort)
{
    return (struct bayes_acquisition){.target = &w->target,
                                      .seed = seed,
                                      .stream = 1,
                                      .known = w->known,
                                      .known_count = 3,
                                      .effort = effort};
}

/* The target at one point, exact. */
static double target_at(const struct world *w, const double *u)
{
    double x[32], value;
    bayes_features_columns(w->seen, u, true, x, 1);
    bayes_acquisition_target_at(&w->target, &(struct kernel_points){x, 1, 1}, &value, NULL);
    return value;
}

/* The largest target among RANDOM points. */
static double random_best(const struct world *w, uint64_t seed)
{
    size_t cols = w->seen->shape.cols;
    AUTO(free) double *x = xcalloc(cols * CHUNK, sizeof *x);
    double value[CHUNK], u[DIMS_MAX], best = -INFINITY;
    struct rng r;
    rng_seed(&r, seed, 12);
    for (int done = 0; done < RANDOM; done += CHUNK) {
        for (size_t i = 0; i < CHUNK; i++) {
            space_draw(w->space, &r, u);
            bayes_features_columns(w->seen, u, true, x + i, CHUNK);
        }
        bayes_acquisition_target_at(&w->target, &(struct kernel_points){x, CHUNK, CHUNK}, value,
                                    NULL);
        for (size_t i = 0; i < CHUNK; i++)
            best = fmax(best, value[i]);
    }
    return best;
}

static const char plane[] = "[{'name':'a','type':'float','low':0,'high':1},"
                            "{'name':'b','type':'float','low':0,'high':1}]";

static const char six[] = "[{'name':'a','type':'float','low':0,'high':1},"
                          "{'name':'b','type':'float','low':0,'high':1},"
                          "{'name':'c','type':'float','low':0,'high':1},"
                          "{'name':'d','type':'float','low':0,'high':1},"
                          "{'name':'e','type':'float','low':0,'high':1},"
                          "{'name':'f','type':'float','low':0,'high':1}]";

static const char mixed[] = "[{'name':'a','type':'float','low':0,'high':1},"
                            "{'name':'k','type':'cat','choices':['x','y','z','w']},"
                            "{'name':'n','type':'int','low':1,'high':40},"
                            "{'name':'o','type':'cat','choices':[1,2,4,8,16]},"
                            "{'name':'b','type':'float','low':0,'high':1,"
                            "'when':{'param':'k','in':['x','z']}},"
                            "{'name':'t','type':'cat','choices':['p','q']}]";

/* Whether a search finds what random points do not. */
static void check_better(const char *space, const char *rules, size_t n, double margin)
{
    for (uint64_t seed = 1; seed <= 3; seed++) {
        struct world w;
        double u[DIMS_MAX], value = 0;
        begin(&w, space, rules, n, seed);
        struct bayes_acquisition s = searching(&w, seed, 1);
        CHECK_INT(bayes_acquisition_maximise(&s, u, 1, &value), 1);
        double random = random_best(&w, seed);
        printf("# seed %d: %.4f, random %.4f\n", (int)seed, value, random);
        CHECK_NEAR(target_at(&w, u), value, 1e-6 * fmax(1, fabs(value)));
        CHECK(space_allows(w.space, u));
        CHECK(value >= random + margin);
        end(&w);
    }
}

TEST(on_a_plane_it_finds_more_than_twenty_thousand_random_points)
{
    check_better(plane, NULL, 15, 0);
}

TEST(in_six_dimensions_it_finds_much_more)
{
    check_better(six, NULL, 40, 0.01);
}

TEST(in_a_mixed_and_conditional_space_it_finds_more)
{
    check_better(mixed, NULL, 30, -1e-9);
}

static const char branches[] = "[{'name':'k','type':'cat','choices':['p','q']},"
                               "{'name':'a','type':'float','low':0,'high':1},"
                               "{'name':'b','type':'float','low':0,'high':1},"
                               "{'name':'c','type':'float','low':0,'high':1,"
                               "'when':{'param':'k','in':['q']}},"
                               "{'name':'d','type':'float','low':0,'high':1,"
                               "'when':{'param':'k','in':['q']}}]";

/* The number of small steps of one active number that lead higher than u. */
static int ways_up(const struct world *w, const double *u)
{
    double at[DIMS_MAX], here = target_at(w, u);
    bool active[DIMS_MAX];
    int up = 0;
    memcpy(at, u, dims(w) * sizeof *u);
    space_snap(w->space, at, active);
    for (size_t i = 0; i < dims(w); i++)
        for (int side = -1; side <= 1 && active[i] && !w->seen->dim[i].count; side += 2) {
            memcpy(at, u, dims(w) * sizeof *u);
            at[i] = fmin(1, fmax(0, at[i] + 3e-3 * side));
            up += target_at(w, at) > here + 1e-3;
        }
    return up;
}

TEST(numbers_that_are_not_active_lead_no_climb_astray)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct world w;
        double u[3 * DIMS_MAX], value = 0;
        begin(&w, branches, NULL, 30, seed);
        struct bayes_acquisition s = searching(&w, seed, 0.05);
        CHECK_INT(bayes_acquisition_maximise(&s, u, 3, &value), 3);
        for (size_t i = 0; i < 3; i++)
            CHECK_INT(ways_up(&w, u + i * dims(&w)), 0);
        end(&w);
    }
}

TEST(where_constraints_cut_the_space_it_stays_within_and_comes_near_the_best)
{
    check_better(six, "['a + b + c <= 0.7', 'd * e < 0.3']", 30, -1);
}

TEST(the_target_has_the_slope_of_its_values)
{
    struct world w;
    begin(&w, six, NULL, 25, 4);
    AUTO(free) bool *success = xcalloc(25, sizeof *success);
    for (size_t i = 0; i < 25; i++)
        success[i] = w.data.x[i] < 0.7;
    struct kernel_points points = {w.data.x, 25, w.data.cap};
    AUTO(gp_classifier) struct gp_classifier *c = gp_classifier_new(&points, 6, success);
    for (int caution = 0; caution < 3; caution++) {
        w.target.success = caution ? c : NULL;
        w.target.success_min = caution == 1 ? -INFINITY : -0.01;
        w.target.widen = 1 + caution;
        double x[2][6] = {{0.3, 0.8, 0.2, 0.6, 0.5, 0.9}, {0.9, 0.1, 0.5, 0.5, 0.2, 0.4}};
        for (int k = 0; k < 2; k++) {
            double value, slope[6], h = 1e-6;
            bayes_acquisition_target_at(&w.target, &(struct kernel_points){x[k], 1, 1}, &value,
                                        slope);
            for (int i = 0; i < 6; i++) {
                double moved[6], v[2];
                for (int side = 0; side < 2; side++) {
                    memcpy(moved, x[k], sizeof moved);
                    moved[i] += side ? h : -h;
                    bayes_acquisition_target_at(&w.target, &(struct kernel_points){moved, 1, 1},
                                                &v[side], NULL);
                }
                CHECK_NEAR(slope[i], (v[1] - v[0]) / (2 * h), 1e-4 * fmax(1, fabs(slope[i])));
            }
        }
    }
    end(&w);
}

TEST(points_at_once_have_the_values_of_each_alone)
{
    struct world w;
    begin(&w, mixed, NULL, 20, 5);
    size_t cols = w.seen->shape.cols;
    enum { N = 70 };
    AUTO(free) double *x = xcalloc(cols * N, sizeof *x);
    AUTO(free) double *us = xcalloc(dims(&w) * N, sizeof *us);
    double value[N];
    struct rng r;
    rng_seed(&r, 5, 5);
    for (size_t i = 0; i < N; i++) {
        space_draw(w.space, &r, us + i * dims(&w));
        bayes_features_columns(w.seen, us + i * dims(&w), true, x + i, N);
    }
    bayes_acquisition_target_at(&w.target, &(struct kernel_points){x, N, N}, value, NULL);
    for (size_t i = 0; i < N; i++)
        CHECK_NEAR(value[i], target_at(&w, us + i * dims(&w)), 1e-7 * fmax(1, fabs(value[i])));
    end(&w);
}

TEST(offers_come_best_first_settled_and_allowed)
{
    struct world w;
    double u[16 * DIMS_MAX], value = 0, last = INFINITY;
    begin(&w, mixed, "['n * o <= 90', 'a < 0.9']", 30, 6);
    struct bayes_acquisition s = searching(&w, 6, 1);
    size_t n = bayes_acquisition_maximise(&s, u, 16, &value);
    CHECK_INT(n, 16);
    for (size_t i = 0; i < n; i++) {
        double *at = u + i * dims(&w), settled[DIMS_MAX], now = target_at(&w, at);
        CHECK(now <= last + 1e-6 * fmax(1, fabs(now)) && (i > 0 || fabs(now - value) < 1e-6));
        last = now;
        CHECK(space_allows(w.space, at));
        memcpy(settled, at, dims(&w) * sizeof *at);
        space_snap(w.space, settled, NULL);
        for (size_t k = 0; k < dims(&w); k++)
            CHECK_NEAR(at[k], settled[k], 1e-15);
    }
    end(&w);
}

TEST(the_same_seed_and_stream_find_the_same_and_others_look_elsewhere)
{
    struct world w;
    double u[3][DIMS_MAX] = {{0}}, value[3];
    begin(&w, six, NULL, 12, 7);
    for (int i = 0; i < 3; i++) {
        struct bayes_acquisition s = searching(&w, i == 2 ? 8 : 7, 1);
        CHECK_INT(bayes_acquisition_maximise(&s, u[i], 1, &value[i]), 1);
    }
    CHECK(memcmp(u[0], u[1], sizeof u[0]) == 0 && value[0] == value[1]);
    CHECK(memcmp(u[0], u[2], sizeof u[0]) != 0);
    end(&w);
}

TEST(nothing_is_found_without_known_points_where_next_to_nothing_is_allowed)
{
    struct world w;
    double u[DIMS_MAX], value = 0;
    begin(&w, plane, "['a < 0.01 and b < 0.01']", 5, 8);
    struct bayes_acquisition s = searching(&w, 8, 1);
    s.known_count = 0;
    CHECK_INT(bayes_acquisition_maximise(&s, u, 1, &value), 0);
    s.known_count = 3; /* a search near the known points finds more */
    CHECK_INT(bayes_acquisition_maximise(&s, u, 1, &value), 1);
    CHECK(space_allows(w.space, u));
    end(&w);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

TEST(less_effort_costs_less_and_still_finds_much)
{
    struct world w;
    double u[DIMS_MAX], value[2], time[2];
    begin(&w, six, NULL, 60, 9);
    for (int i = 0; i < 2; i++) {
        struct bayes_acquisition s = searching(&w, 9, i ? 0.2 : 1);
        double start = seconds();
        for (int k = 0; k < 3; k++)
            CHECK_INT(bayes_acquisition_maximise(&s, u, 1, &value[i]), 1);
        time[i] = (seconds() - start) / 3;
    }
    printf("# effort 1: %.4f in %.1f ms; 0.2: %.4f in %.1f ms; random %.4f\n", value[0],
           1e3 * time[0], value[1], 1e3 * time[1], random_best(&w, 9));
    CHECK_TIME(time[1] < 0.6 * time[0]);
    CHECK(value[1] > random_best(&w, 9));
    end(&w);
}

TEST(two_goals_are_searched_for_what_they_add_to_the_front)
{
    struct world a, b;
    double u[DIMS_MAX], value = 0, front[20];
    begin(&a, plane, NULL, 15, 2);
    begin(&b, plane, NULL, 15, 2);
    for (size_t i = 0; i < 15; i++) /* the same points, other values */
        b.data.y[i] = pow(b.data.x[i] - 0.8, 2) + pow(b.data.x[b.data.cap + i] - 0.2, 2);
    bayes_model_free(b.model);
    b.model = bayes_model_new(&b.seen->shape);
    CHECK(bayes_model_update(b.model, &b.data, 15));
    double y[30];
    size_t rows[15];
    for (size_t i = 0; i < 15; i++) {
        y[2 * i] = a.model->targets[i];
        y[2 * i + 1] = b.model->targets[i];
    }
    size_t n = pareto_front(y, 15, 2, rows);
    CHECK(n <= 10);
    for (size_t i = 0; i < n; i++)
        memcpy(front + 2 * i, y + 2 * rows[i], 2 * sizeof *y);
    a.target.second = b.model->gp;
    a.target.front = front;
    a.target.front_count = n;
    pareto_reference(y, 15, 2, a.target.ref);
    struct bayes_acquisition s = searching(&a, 2, 1);
    CHECK_INT(bayes_acquisition_maximise(&s, u, 1, &value), 1);
    double random = random_best(&a, 2);
    printf("# %.4f, random %.4f\n", value, random);
    CHECK(value >= random);
    end(&a);
    end(&b);
}

/* ---- outcome constraints -------------------------------------------------------------------- */

TEST(a_bound_adds_the_logarithm_of_its_probability_and_alone_it_is_the_target)
{
    struct world w;
    double x[2] = {0.3, 0.7}, slope[2], mean, var, by[2], free_of_it, bounded[2], alone;
    begin(&w, plane, NULL, 12, 4);
    struct kernel_points at = {x, 1, 1};
    bayes_acquisition_target_at(&w.target, &at, &free_of_it, NULL);
    gp_predict(w.model->gp, &at, &mean, &var, NULL, NULL);
    w.target.bounds[0] = (struct bayes_acquisition_bound){w.model->gp, -INFINITY, mean};
    w.target.bound_count = 1;
    bayes_acquisition_target_at(&w.target, &at, bounded, NULL);
    CHECK_NEAR(bounded[0], free_of_it + log(0.5), 1e-9); /* the bound is at the mean: P = 1/2 */
    CHECK_NEAR(bayes_acquisition_log_feasible(&w.target, x), log(0.5), 1e-9);
    w.target.bounds[0] = (struct bayes_acquisition_bound){w.model->gp, -1, 0.5};
    w.target.seek = true;
    bayes_acquisition_target_at(&w.target, &at, &alone, slope);
    CHECK_NEAR(alone, acquisition_log_within(-1, 0.5, mean, sqrt(var), by), 1e-9);
    for (size_t c = 0; c < 2; c++) {
        double there[2] = {x[0], x[1]}, h = 1e-6;
        there[c] += h;
        bayes_acquisition_target_at(&w.target, &(struct kernel_points){there, 1, 1}, &bounded[1],
                                    NULL);
        there[c] -= 2 * h;
        bayes_acquisition_target_at(&w.target, &(struct kernel_points){there, 1, 1}, &bounded[0],
                                    NULL);
        CHECK_NEAR(slope[c], (bounded[1] - bounded[0]) / (2 * h), 1e-3 * (1 + fabs(slope[c])));
    }
    end(&w);
}
