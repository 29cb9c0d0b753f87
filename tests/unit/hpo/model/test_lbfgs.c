#include "hpo/model/lbfgs.h"

#include <math.h>

#include "tests/unit/test.h"

typedef double value_fn(const double *x, size_t n, double *g);

static double rosenbrock(const double *x, size_t n, double *g)
{
    double f = 0;
    for (size_t i = 0; i < n; i++)
        g[i] = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        double a = x[i + 1] - x[i] * x[i], b = 1 - x[i];
        f += 100 * a * a + b * b;
        g[i] += -400 * a * x[i] - 2 * b;
        g[i + 1] += 200 * a;
    }
    return f;
}

/* Curvatures from 1 to 100; the minimum is at 0.3 in each. */
static double bowl(const double *x, size_t n, double *g)
{
    double f = 0;
    for (size_t i = 0; i < n; i++) {
        double w = pow(10, 2.0 * (double)i / (double)n), d = x[i] - 0.3;
        f += w * d * d;
        g[i] = 2 * w * d;
    }
    return f;
}

static double log_wall(const double *x, size_t n, double *g)
{
    (void)n; /* one variable: x - ln x, infinite for x <= 0 */
    g[0] = 1 - 1 / x[0];
    return x[0] > 0 ? x[0] - log(x[0]) : NAN;
}

static int minimise(struct lbfgs *l, value_fn *fn, size_t n)
{
    double g[64];
    int evals = 0;
    for (; lbfgs_is_active(l); evals++) {
        double f = fn(lbfgs_x(l), n, g);
        lbfgs_update(l, f, g);
    }
    return evals;
}

TEST(the_valley_of_rosenbrock_is_walked_to_its_end)
{
    double lo[10], hi[10], x[10];
    for (int i = 0; i < 10; i++) {
        lo[i] = -5;
        hi[i] = 10;
        x[i] = i % 2 ? 1 : -1.2;
    }
    AUTO(lbfgs) struct lbfgs *l = lbfgs_new(10, lo, hi, x, 400, 1e-14);
    CHECK(minimise(l, rosenbrock, 10) < 200);
    const double *best = NULL;
    CHECK(lbfgs_best(l, &best) < 1e-8);
    CHECK(fabs(best[9] - 1) < 1e-3);
}

TEST(a_narrow_bowl_takes_few_evaluations)
{
    double lo[20], hi[20], x[20];
    for (int i = 0; i < 20; i++) {
        lo[i] = 0;
        hi[i] = 1;
        x[i] = 0.9;
    }
    AUTO(lbfgs) struct lbfgs *l = lbfgs_new(20, lo, hi, x, 500, 1e-16);
    int evals = minimise(l, bowl, 20);
    const double *best = NULL;
    CHECK(lbfgs_best(l, &best) < 1e-9);
    CHECK(evals < 150);
}

TEST(a_minimum_outside_the_box_is_found_on_its_side)
{
    double lo[3] = {0.5, 0, 0.4}, hi[3] = {1, 0.2, 1}, x[3] = {0.7, 0.1, 0.7}, g[3];
    AUTO(lbfgs) struct lbfgs *l = lbfgs_new(3, lo, hi, x, 100, 1e-14);
    minimise(l, bowl, 3);
    const double *best = NULL, corner[3] = {0.5, 0.2, 0.4};
    CHECK(fabs(lbfgs_best(l, &best) - bowl(corner, 3, g)) < 1e-9);
    for (int i = 0; i < 3; i++)
        CHECK(best[i] == corner[i]);
}

TEST(values_that_are_not_finite_shorten_the_step)
{
    double lo = -10, hi = 10, x = 8;
    AUTO(lbfgs) struct lbfgs *l = lbfgs_new(1, &lo, &hi, &x, 100, 1e-14);
    minimise(l, log_wall, 1);
    const double *best = NULL;
    CHECK(fabs(lbfgs_best(l, &best) - 1) < 1e-9);
}

TEST(a_start_without_a_value_ends_at_once)
{
    double lo = -10, hi = 10, x = -1;
    AUTO(lbfgs) struct lbfgs *l = lbfgs_new(1, &lo, &hi, &x, 100, 1e-14);
    CHECK_INT(minimise(l, log_wall, 1), 1);
    const double *best = NULL;
    CHECK(isinf(lbfgs_best(l, &best)));
}

TEST(it_never_asks_outside_the_box_nor_too_often)
{
    double lo[4] = {-1, -1, -1, -1}, hi[4] = {0.2, 0.2, 2, 2}, x[4] = {-3, 9, 0, 0}, g[4];
    AUTO(lbfgs) struct lbfgs *l = lbfgs_new(4, lo, hi, x, 25, 0);
    int evals = 0;
    for (; lbfgs_is_active(l); evals++) {
        for (int i = 0; i < 4; i++)
            CHECK(lbfgs_x(l)[i] >= lo[i] && lbfgs_x(l)[i] <= hi[i]);
        lbfgs_update(l, rosenbrock(lbfgs_x(l), 4, g), g);
    }
    CHECK(evals <= 25);
}

TEST(a_step_without_curvature_leaves_all_that_is_known_of_it)
{
    double lo[3] = {-9, -9, -9}, hi[3] = {9, 9, 9}, x[3] = {5, 4, 3}, g[3], last[3], step[3];
    AUTO(lbfgs) struct lbfgs *l = lbfgs_new(3, lo, hi, x, 400, 0);
    const double *best = NULL;
    int steps = 0; /* accepted steps with a positive curvature */
    while (steps < 12) {
        double f = bowl(lbfgs_x(l), 3, g), before = lbfgs_best(l, &best);
        lbfgs_update(l, f, g);
        steps += lbfgs_best(l, &best) < before;
        CHECK(lbfgs_is_active(l));
    }
    double f = lbfgs_best(l, &best), slope = 0;
    bowl(best, 3, g);
    for (int i = 0; i < 3; i++) {
        last[i] = lbfgs_x(l)[i];
        step[i] = last[i] - best[i];
        slope += g[i] * step[i];
    }
    lbfgs_update(l, f + slope, g); /* a plane */
    for (int i = 0; i < 3; i++)
        CHECK_NEAR((lbfgs_x(l)[i] - last[i]) / step[i], 1, 1e-6);
}
