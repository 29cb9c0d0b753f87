#include "hpo/model/importance.h"

#include <math.h>

#include "common/mem.h"
#include "common/rng.h"
#include "hpo/model/sobol.h"
#include "tests/unit/test.h"

enum { MAX = 2000, DIMS = 4 };

static double u[DIMS][MAX], y[MAX]; /* trials as the tests make them */

static size_t top_count(size_t n)
{
    bool top[MAX];
    importance_top(y, n, top);
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += top[i];
    return count;
}

/* Shares of `d` parameters: importances that add up to 1. */
static void shares(size_t n, size_t d, const size_t *cells, bool ordered, double *share)
{
    bool top[MAX];
    double sum = 0;
    importance_top(y, n, top);
    for (size_t k = 0; k < d; k++)
        sum += share[k] = importance_of(u[k], top, n, cells[k], ordered);
    for (size_t k = 0; k < d; k++)
        share[k] /= sum;
}

static const size_t fine[DIMS] = {IMPORTANCE_CELLS, IMPORTANCE_CELLS, IMPORTANCE_CELLS,
                                  IMPORTANCE_CELLS};

/* DIMS-dimensional Sobol points as u. */
static void fill(size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        double p[DIMS];
        sobol_point(seed, i, DIMS, p);
        for (size_t k = 0; k < DIMS; k++)
            u[k][i] = p[k];
    }
}

/* ---- the top -------------------------------------------------------------------------------- */

TEST(the_top_is_the_best_tenth_or_five_or_half)
{
    for (size_t i = 0; i < MAX; i++)
        y[i] = (double)(i * 7919 % MAX); /* all different */
    CHECK_INT(top_count(1000), 100);
    CHECK_INT(top_count(101), 11);
    CHECK_INT(top_count(20), 5);
    CHECK_INT(top_count(10), 5);
    CHECK_INT(top_count(7), 3);
    CHECK_INT(top_count(1), 0);
    CHECK_INT(top_count(0), 0);
}

TEST(those_equal_to_the_last_of_the_top_belong_to_it)
{
    for (size_t i = 0; i < 100; i++)
        y[i] = i < 40 ? 1 : 2;
    CHECK_INT(top_count(100), 40);
    for (size_t i = 0; i < 100; i++)
        y[i] = 3;
    CHECK_INT(top_count(100), 100);
    fill(100, 0);
    double share[1] = {0};
    bool top[100];
    importance_top(y, 100, top);
    share[0] = importance_of(u[0], top, 100, 50, true);
    CHECK_NEAR(share[0], 0, 0); /* all values are equal: no parameter matters */
}

/* ---- importances ---------------------------------------------------------------------------- */

TEST(importances_are_those_of_optuna)
{
    /* optuna 5.0.0, PedAnovaImportanceEvaluator(), unnormalised, for the trials below: a and b
     * IntDistribution(0, 49), c IntDistribution(0, 7); b missing where c is odd if conditional. */
    static const struct {
        size_t n;
        bool conditional;
        double want[3];
    } cases[] = {
        {60, false, {0.0187038887653, 0.00704372487624, 0.000103261713669}},
        {60, true, {0.0206898258906, 0.00323085207545, 0.000807746732307}},
        {200, false, {0.0241316332144, 0.019925598372, 0.00677903336909}},
        {200, true, {0.0299105709381, 0.00897696598216, 0.00197841946584}},
        {1000, false, {0.0321789245304, 0.0236483405229, 0.000919341206517}},
        {1000, true, {0.0422283639884, 0.00800355569372, 0.000206578565538}},
    };
    static const size_t cells[] = {50, 50, 8};
    for (size_t t = 0; t < COUNT_OF(cases); t++) {
        for (size_t i = 0; i < cases[t].n; i++) {
            size_t a = (i * 37 + 11) % 50, b = (i * i * 7 + 3 * i) % 50, c = (i * 5 + i / 8) % 8;
            bool without = cases[t].conditional && c % 2 == 1;
            u[0][i] = ((double)a + 0.5) / 50;
            u[1][i] = without ? (double)NAN : ((double)b + 0.5) / 50;
            u[2][i] = ((double)c + 0.5) / 8;
            y[i] = pow((double)a - 20, 2) +
                   (without ? 100 : 4 * fabs((double)b - 40) + 0.5 * (double)c);
        }
        double share[3], sum = 0;
        for (int k = 0; k < 3; k++)
            sum += cases[t].want[k];
        shares(cases[t].n, 3, cells, true, share);
        for (int k = 0; k < 3; k++)
            CHECK_NEAR(share[k], cases[t].want[k] / sum, 1e-9);
    }
}

TEST(the_divergence_of_categories_by_hand)
{
    /* 10 of 20 trials are in each of two categories, and the top 5 are all in the first: shares
     * of 5.5/6 and 0.5/6 against halves. */
    bool top[20];
    for (size_t i = 0; i < 20; i++) {
        u[0][i] = i < 10 ? 0.25 : 0.75;
        top[i] = i < 5;
    }
    CHECK_NEAR(importance_of(u[0], top, 20, 2, false), 4 * pow(5.5 / 6 - 0.5, 2), 1e-15);
}

TEST(weights_of_an_additive_function_give_the_order_and_none_gives_nothing)
{
    for (uint64_t seed = 0; seed < 5; seed++) {
        static const double weight[DIMS] = {1, 0, 4, 0.25};
        fill(MAX, seed);
        for (size_t i = 0; i < MAX; i++) {
            y[i] = 0;
            for (size_t k = 0; k < DIMS; k++)
                y[i] += weight[k] * fabs(u[k][i] - 0.3);
        }
        double share[DIMS];
        shares(MAX, DIMS, fine, true, share);
        CHECK(share[2] > 2 * share[0] && share[0] > 2 * share[3]);
        if (!(share[1] < 0.01))
            FAIL("seed %d: %g without any weight", (int)seed, share[1]);
    }
}

TEST(with_equal_weights_shares_are_equal)
{
    fill(MAX, 1);
    for (size_t i = 0; i < MAX; i++)
        y[i] = pow(u[0][i] - 0.5, 2) + pow(u[1][i] - 0.5, 2) + pow(u[2][i] - 0.5, 2);
    double share[3];
    shares(MAX, 3, fine, true, share);
    for (int k = 0; k < 3; k++)
        CHECK_NEAR(share[k], 1 / 3.0, 0.04);
}

TEST(one_parameter_that_decides_has_all_of_it_at_a_hundred_trials)
{
    fill(100, 2);
    for (size_t i = 0; i < 100; i++)
        y[i] = u[1][i];
    double share[DIMS];
    shares(100, DIMS, fine, true, share);
    CHECK(share[1] > 0.85);
}

TEST(only_the_order_of_values_counts_and_not_that_of_trials_or_of_categories)
{
    enum { N = 300, C = 6 };
    static const size_t cells[] = {C, C};
    double before[2], after[2];
    fill(N, 3);
    for (size_t i = 0; i < N; i++)
        y[i] = fabs(floor(u[0][i] * C) - 2) + 0.1 * u[1][i];
    shares(N, 2, cells, false, before);
    for (size_t i = 0; i < N / 2; i++) {
        for (int k = 0; k < 2; k++) {
            double swap = u[k][i];
            u[k][i] = u[k][N - 1 - i];
            u[k][N - 1 - i] = swap;
        }
        double swap = y[i];
        y[i] = y[N - 1 - i];
        y[N - 1 - i] = swap;
    }
    for (size_t i = 0; i < N; i++) {
        y[i] = exp(3 * y[i]) - 1000;
        u[0][i] = fmod(u[0][i] + 2.0 / C, 1);
    }
    shares(N, 2, cells, false, after);
    for (int k = 0; k < 2; k++)
        CHECK_NEAR(after[k], before[k], 1e-12);
}

TEST(a_parameter_that_none_or_one_has_or_none_of_the_top_has_no_importance)
{
    bool top[100];
    fill(100, 0);
    for (size_t i = 0; i < 100; i++) {
        y[i] = u[0][i];
        u[1][i] = NAN;
        u[2][i] = i == 0 ? 0.5 : (double)NAN;
        u[3][i] = u[0][i] < 0.2 ? (double)NAN : u[0][i];
    }
    importance_top(y, 100, top);
    for (int k = 1; k < DIMS; k++)
        CHECK_NEAR(importance_of(u[k], top, 100, 50, true), 0, 0);
}
