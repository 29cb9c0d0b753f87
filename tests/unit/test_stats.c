#include "collectives/stats.h"

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
