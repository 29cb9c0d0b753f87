#include "collectives/bench/analysis/bench_diff.h"

#include <math.h>

#include "common/rng.h"
#include "tests/unit/test.h"

/* By hand: U = 0 of 4 x 5, z = (10 - 0.5) / sqrt(20 * 10 / 12) = 2.3270, p = 0.01996; and what R's
 * wilcox.test(exact = FALSE) says. */
TEST(the_rank_sum_test_is_that_of_the_textbook)
{
    static const double a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8, 9};
    CHECK_NEAR(bench_diff_rank_sum(a, 4, b, 5), 0.0199638, 1e-4);
    CHECK_NEAR(bench_diff_rank_sum(b, 5, a, 4), 0.0199638, 1e-4);
    CHECK_NEAR(bench_diff_rank_sum(a, 4, a, 4), 1, 1e-9);
    static const double same[] = {7, 7, 7};
    CHECK_NEAR(bench_diff_rank_sum(same, 3, same, 3), 1, 0);
}

enum { N = 30, ROWS = 12 };

static void draw(double *v, struct rng *r, double scale)
{
    for (int i = 0; i < N; i++)
        v[i] = scale * (1 - 0.1 * log(1 - rng_unit(r)));
}

TEST(of_equal_rows_one_is_called_different_in_at_most_5_of_100_comparisons)
{
    enum { SEED = 5, TRIES = 1000 };
    struct rng r;
    rng_seed(&r, SEED, 0);
    int named = 0;
    for (int t = 0; t < TRIES; t++) {
        double v[2][ROWS][N];
        struct bench_diff_row rows[ROWS];
        for (int i = 0; i < ROWS; i++) {
            draw(v[0][i], &r, 1);
            draw(v[1][i], &r, 1);
            rows[i] = (struct bench_diff_row){
                .before = v[0][i], .after = v[1][i], .before_n = N, .after_n = N};
        }
        bench_diff_judge(rows, ROWS, 0);
        bool any = false;
        for (int i = 0; i < ROWS; i++)
            any |= rows[i].p < 0.05;
        named += any;
    }
    if (named > TRIES * 65 / 1000)
        FAIL("seed %d: %d of %d", SEED, named, TRIES);
}

TEST(rows_of_too_few_iterations_cannot_be_judged)
{
    struct bench_diff_row rows[100];
    for (int i = 0; i < 100; i++)
        rows[i] = (struct bench_diff_row){.before_n = 4, .after_n = 4};
    CHECK(bench_diff_can_judge(rows, 1));
    CHECK(!bench_diff_can_judge(rows, 100));
    rows[57].before_n = rows[57].after_n = 20;
    CHECK(bench_diff_can_judge(rows, 100));
    CHECK(!bench_diff_can_judge(rows, 0));
    rows[0].after_n = 1;
    CHECK(!bench_diff_can_judge(rows, 1));
    rows[0].before_n = 10000;
    CHECK(!bench_diff_can_judge(rows, 1));
}

TEST(a_row_that_is_slower_beyond_chance_and_tolerance_is_worse)
{
    struct rng r;
    double a[N], b[N], c[N], d[N];
    rng_seed(&r, 6, 0);
    draw(a, &r, 1);
    draw(b, &r, 1.3);
    draw(c, &r, 0.7);
    draw(d, &r, 1);
    d[0] = 100; /* one outlier is not a change */
    struct bench_diff_row rows[] = {{.before = a, .after = b, .before_n = N, .after_n = N},
                                    {.before = a, .after = c, .before_n = N, .after_n = N},
                                    {.before = a, .after = d, .before_n = N, .after_n = N}};
    CHECK_INT(bench_diff_judge(rows, 3, 0.05), 1);
    CHECK(rows[0].worse && !rows[0].better);
    CHECK(rows[1].better && !rows[1].worse);
    CHECK(!rows[2].better && !rows[2].worse);
    CHECK(rows[0].change > 0.25 && rows[0].change < 0.35);
    CHECK_INT(bench_diff_judge(rows, 3, 0.5), 0);
    CHECK_INT(bench_diff_judge(rows, 0, 0.5), 0);
}
