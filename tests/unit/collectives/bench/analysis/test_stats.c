#include "collectives/bench/analysis/stats.h"

#include <math.h>

#include "common/rng.h"
#include "tests/unit/test.h"

TEST(the_ranks_times_become_one_as_asked)
{
    static const double v[] = {3, 1, 4, 8};
    CHECK_NEAR(stats_pick(v, 4, STATS_FIRST), 3, 0);
    CHECK_NEAR(stats_pick(v, 4, STATS_MEAN), 4, 0);
    CHECK_NEAR(stats_pick(v, 4, STATS_MIN), 1, 0);
    CHECK_NEAR(stats_pick(v, 4, STATS_MAX), 8, 0);
    for (int pick = 0; pick < STATS_PICKS; pick++)
        CHECK_NEAR(stats_pick(v, 1, (enum stats_pick)pick), 3, 0);
}

TEST(small_values_beside_large_ones_are_not_lost)
{
    static const double v[] = {1, 1e100, 1, -1e100};
    CHECK_NEAR(stats_pick(v, 4, STATS_MEAN), 0.5, 0);
}

TEST(single_times_are_told_by_their_middle_and_their_ends)
{
    double v[200];
    for (int i = 0; i < 200; i++)
        v[(i * 37) % 200] = i + 1; /* 1 … 200, in no order */
    struct stats s = stats_of(v, 200);
    CHECK_INT(s.n, 200);
    CHECK_NEAR(s.min, 1, 0);
    CHECK_NEAR(s.median, 100.5, 0);
    CHECK_NEAR(s.p99, 198, 0);
    CHECK_NEAR(s.p95, 190, 0);
    CHECK_NEAR(v[0], 1, 0); /* the input is not modified */
    s = stats_of(v, 1);
    CHECK_NEAR(s.p95, v[0], 0);
    CHECK_NEAR(s.p99, v[0], 0);
    CHECK_NEAR(s.low, v[0], 0);
    s = stats_of(v, 21);
    size_t above = 0;
    for (size_t i = 0; i < 21; i++)
        above += v[i] > s.p95;
    CHECK_INT(above, 1); /* 20 of 21 are 95.2 % */
}

/* Tables of the binomial law: n = 10: 2nd … 9th (97.9 %), n = 20: 6th … 15th (95.9 %), n = 100:
 * 40th … 61st (96.5 %); n = 5: all five (93.8 %). */
TEST(the_interval_of_the_median_is_that_of_the_tables)
{
    static const struct {
        size_t n;
        int low, high;
    } want[] = {{5, 1, 5}, {6, 1, 6}, {10, 2, 9}, {20, 6, 15}, {100, 40, 61}};
    double v[100];
    for (int i = 0; i < 100; i++)
        v[i] = i + 1;
    for (size_t k = 0; k < 5; k++) {
        struct stats s = stats_of(v, want[k].n);
        CHECK_NEAR(s.low, want[k].low, 0);
        CHECK_NEAR(s.high, want[k].high, 0);
    }
}

TEST(the_interval_holds_the_median_as_often_as_it_says)
{
    enum { SEED = 20, TRIES = 4000, N = 30 };
    struct rng r;
    rng_seed(&r, SEED, 0);
    int held = 0;
    for (int t = 0; t < TRIES; t++) {
        double v[N];
        for (int i = 0; i < N; i++)
            v[i] = -log(1 - rng_unit(&r)); /* skewed; its median is log 2 */
        struct stats s = stats_of(v, N);
        held += s.low <= log(2) && log(2) <= s.high;
    }
    if (held < TRIES * 94 / 100 || held > TRIES * 98 / 100)
        FAIL("seed %d: %d of %d", SEED, held, TRIES);
}

TEST(the_spread_is_a_normal_one_s_and_half_of_the_values_may_be_far_off)
{
    static const double v[] = {1, 2, 3, 4, 5, 6, 7, 1e9, 1e9, -1e9};
    CHECK_NEAR(stats_spread(v, 7, 4), 1.4826 * 2, 1e-9);
    CHECK(stats_spread(v, 10, stats_median(v, 10)) < 10);
}
