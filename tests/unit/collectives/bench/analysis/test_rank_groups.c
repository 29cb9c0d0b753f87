#include "collectives/bench/analysis/rank_groups.h"

#include <errno.h>

#include "common/mem.h"
#include "tests/unit/test.h"

static struct rank_groups read_as(const char *text, const char *mask)
{
    struct rank_groups s = {0};
    struct err e = {0};
    if (rank_groups_read(&s, text, mask, &e) < 0)
        FAIL("%s", e.text);
    return s;
}

static void colors_are(const char *text, const char *mask, const int want[8])
{
    struct rank_groups s = read_as(text, mask);
    for (int r = 0; r < 8; r++)
        CHECK_INT(rank_groups_color(&s, r), want[r]);
}

/* The examples of nccl-tests' README, for nodes of 4. */
TEST(every_spelling_of_nccl_tests_gives_its_colours)
{
    static const int every_fourth[] = {0, 1, 2, 3, 0, 1, 2, 3}, fours[] = {3, 3, 3, 3, 7, 7, 7, 7},
                     halves[] = {0, 0, 0, 0, 1, 1, 1, 1}, all[8] = {0};
    static const char *const ands[] = {"AND 0x3",  "AND3",  "& 3", "&0b11",
                                       "and 0B11", "MOD 4", "%4",  "% 0x4"};
    for (size_t i = 0; i < COUNT_OF(ands); i++)
        colors_are(ands[i], NULL, every_fourth);
    colors_are("OR 0x3", NULL, fours);
    colors_are("|3", NULL, fours);
    colors_are("DIV 4", NULL, halves);
    colors_are("/ 0b100", NULL, halves);
    colors_are(NULL, "3", every_fourth);
    colors_are("DIV 4", "0x3", every_fourth); /* the mask takes precedence */
    colors_are(NULL, NULL, all);
    colors_are(NULL, "0", all);
}

TEST(what_splits_nothing_is_refused_and_leaves_the_split_as_it_was)
{
    static const char *const bad[] = {"",       "8",       "XOR 3",         "MOD",
                                      "MOD 0",  "DIV 0x0", "MOD -2",        "AND 3x",
                                      "MOD +2", "OR 0b",   "MOD 4294967296"};
    struct rank_groups s = {'%', 5};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err e = {0};
        CHECK_INT(rank_groups_read(&s, bad[i], NULL, &e), -EINVAL);
        CHECK_HAS(e.text, "NCCL_TESTS_SPLIT: invalid operation");
        CHECK_HAS(e.hint, "MOD 8");
    }
    struct err e = {0};
    CHECK_INT(rank_groups_read(&s, NULL, "xyz", &e), -EINVAL);
    CHECK_HAS(e.text, "NCCL_TESTS_SPLIT_MASK: 'xyz' is not");
    CHECK(s.op == '%' && s.value == 5);
}

TEST(groups_are_counted_and_the_smallest_is_known)
{
    struct rank_groups s = read_as("DIV 3", NULL);
    int smallest = 0, members[7];
    CHECK_INT(rank_groups_groups(&s, 7, &smallest), 3);
    CHECK_INT(smallest, 1);
    CHECK_INT(rank_groups_group(members, &s, 7, 4), 3);
    CHECK(members[0] == 3 && members[1] == 4 && members[2] == 5);
    CHECK_INT(rank_groups_group(NULL, &s, 7, 6), 1);
    s = read_as(NULL, NULL);
    CHECK_INT(rank_groups_groups(&s, 7, &smallest), 1);
    CHECK_INT(smallest, 7);
}
