#include "collectives/comm/subgroup.h"

#include "tests/unit/test.h"

TEST(ranks_of_a_colour_stand_in_the_order_of_their_keys)
{
    const struct subgroup_key wishes[] = {{0, 5}, {1, 0}, {0, -3}, {0, 5}, {-1, 0}, {1, 0}};
    int members[6];
    CHECK_INT(subgroup_split(members, wishes, 6, 3), 3);
    CHECK_INT(members[0], 2);
    CHECK_INT(members[1], 0); /* equal keys: by rank */
    CHECK_INT(members[2], 3);
    CHECK_INT(subgroup_index(members, 3, 3), 2);
    CHECK_INT(subgroup_split(members, wishes, 6, 1), 2);
    CHECK_INT(members[1], 5);
}

TEST(without_a_colour_a_rank_is_nowhere)
{
    const struct subgroup_key wishes[] = {{0, 0}, {-1, 0}, {-1, 0}};
    int members[3];
    CHECK_INT(subgroup_split(members, wishes, 3, 1), 0);
    CHECK_INT(subgroup_index(members, 0, 1), -1);
}

TEST(the_ranks_that_are_left_keep_their_order)
{
    const int without[] = {4, 0, 4};
    int members[5];
    struct err e = {0};
    CHECK_INT(subgroup_shrink(members, without, 3, 5, 2, &e), 3);
    CHECK_INT(members[0], 1);
    CHECK_INT(members[2], 3);
    CHECK_INT(subgroup_shrink(members, NULL, 0, 5, 2, &e), 5);
}

TEST(a_rank_cannot_leave_itself_out_nor_one_that_there_is_not)
{
    int members[3], me = 1, beyond = 3, below = -1;
    struct err e = {0};
    CHECK_INT(subgroup_shrink(members, &me, 1, 3, 1, &e), -EINVAL);
    CHECK_HAS(e.text, "rank 1 cannot exclude itself");
    CHECK_INT(subgroup_shrink(members, &beyond, 1, 3, 1, &e), -EINVAL);
    CHECK_HAS(e.text, "cannot exclude rank 3");
    CHECK_INT(subgroup_shrink(members, &below, 1, 3, 1, &e), -EINVAL);
}
