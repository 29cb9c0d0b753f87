#include "hpo/model/gp_classifier.h"

#include <math.h>

#include "common/rng.h"
#include "tests/unit/test.h"

enum { N = 60, COLS = 3 };

static double x[COLS * N];
static bool success[N];

/* Trials fail beyond a plane. */
static struct gp_classifier *plane(uint64_t seed, double where)
{
    struct rng r;
    rng_seed(&r, seed, 0);
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < COLS; k++)
            x[k * N + i] = rng_unit(&r);
        success[i] = x[i] + x[N + i] < where;
    }
    return gp_classifier_new(&(struct kernel_points){x, N, N}, COLS, success);
}

static double success_at(struct gp_classifier *c, double a, double b, double d)
{
    return exp(gp_classifier_log_success(c, (double[]){a, b, d}, NULL));
}

TEST(trials_that_went_well_are_told_from_those_that_failed)
{
    AUTO(gp_classifier) struct gp_classifier *c = plane(1, 1.2);
    for (int i = 0; i < N; i++) {
        double p = success_at(c, x[i], x[N + i], x[2 * N + i]);
        if (fabs(x[i] + x[N + i] - 1.2) > 0.2)
            CHECK((p > 0.5) == success[i]);
    }
    CHECK(success_at(c, 0.1, 0.1, 0.5) > 0.99);
    CHECK(success_at(c, 0.95, 0.95, 0.5) < 0.02);
}

TEST(one_failure_warns_of_what_lies_beyond_it)
{
    double at[COLS * 5] = {0.2, 0.5, 0.4, 0.3, 0.8, 0.3, 0.2, 0.5,
                           0.4, 0.9, 0.5, 0.1, 0.9, 0.4, 0.6};
    bool went[5] = {true, true, true, true, false};
    AUTO(gp_classifier)
    struct gp_classifier *c = gp_classifier_new(&(struct kernel_points){at, 5, 5}, COLS, went);
    CHECK(success_at(c, 0.95, 0.95, 0.6) < 0.3);
    CHECK(success_at(c, 0.3, 0.3, 0.5) > 0.9);
}

TEST(where_nothing_failed_nothing_is_feared)
{
    AUTO(gp_classifier) struct gp_classifier *c = plane(2, 9);
    for (double a = 0.1; a < 1; a += 0.2)
        CHECK(success_at(c, a, a, a) > 0.8);
}

TEST(its_slopes_agree_with_differences)
{
    AUTO(gp_classifier) struct gp_classifier *c = plane(3, 1);
    struct rng r;
    rng_seed(&r, 4, 0);
    for (int t = 0; t < 20; t++) {
        double at[COLS], slope[COLS], h = 1e-5;
        for (int k = 0; k < COLS; k++)
            at[k] = rng_unit(&r);
        gp_classifier_log_success(c, at, slope);
        for (int k = 0; k < COLS; k++) {
            double up[COLS], down[COLS];
            for (int j = 0; j < COLS; j++) {
                up[j] = at[j] + (j == k) * h;
                down[j] = at[j] - (j == k) * h;
            }
            double want =
                gp_classifier_log_success(c, up, NULL) - gp_classifier_log_success(c, down, NULL);
            CHECK_NEAR(slope[k], want / (2 * h), 1e-4 * (1 + fabs(slope[k])));
        }
    }
}

TEST(contradictions_give_even_odds)
{
    double at[COLS * 2] = {0.5, 0.5, 0.5, 0.5, 0.5, 0.5};
    bool went[2] = {true, false};
    AUTO(gp_classifier)
    struct gp_classifier *c = gp_classifier_new(&(struct kernel_points){at, 2, 2}, COLS, went);
    double p = success_at(c, 0.5, 0.5, 0.5);
    CHECK(p > 0.4 && p < 0.8);
}
