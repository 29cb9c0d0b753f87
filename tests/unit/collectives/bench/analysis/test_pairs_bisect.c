#include "collectives/bench/analysis/pairs_bisect.h"

#include <math.h>

#include "tests/unit/test.h"

enum { NODES_MAX = 64 };

struct faults {
    int nodes[2]; /* -1: none */
    int link[2];
};

static bool slow_pair(const struct faults *f, int a, int b)
{
    for (int k = 0; k < 2; k++)
        if (f->nodes[k] == a || f->nodes[k] == b)
            return true;
    return f->link[0] == a && f->link[1] == b;
}

/* Bisects and returns the number of rounds. Checks that no node is in two groups. */
static int bisect(bool *suspects, int n, const struct faults *f)
{
    AUTO(pairs_bisect) struct pairs_bisect *b = pairs_bisect_new(n);
    int group[NODES_MAX], rounds = 0, groups;
    while ((groups = pairs_bisect_round(b, group)) > 0) {
        bool slow[2 * NODES_MAX + 2] = {0};
        for (int i = 0; i < n; i++)
            CHECK(group[i] < groups);
        for (int i = 0; i < n; i++)
            for (int k = i + 1; k < n; k++)
                if (group[i] >= 0 && group[i] == group[k])
                    slow[group[i]] |= slow_pair(f, i, k);
        pairs_bisect_answer(b, slow);
        if (++rounds > 2 * log2(n) + 2)
            FAIL("%d nodes: more than %g rounds", n, 2 * log2(n) + 2);
    }
    for (int i = 0; i < n; i++)
        suspects[i] = pairs_bisect_suspects(b, i);
    return rounds;
}

static int count(const bool *suspects, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += suspects[i];
    return sum;
}

TEST(without_a_fault_one_round_is_enough_and_none_is_suspect)
{
    bool suspects[NODES_MAX];
    for (int n = 0; n <= NODES_MAX; n++) {
        CHECK_INT(bisect(suspects, n, &(struct faults){{-1, -1}, {-1, -1}}), n > 1);
        CHECK_INT(count(suspects, n), 0);
    }
}

TEST(each_slow_node_is_a_suspect_with_few_others)
{
    bool suspects[NODES_MAX];
    for (int n = 2; n <= NODES_MAX; n++)
        for (int x = 0; x < n; x++) {
            bisect(suspects, n, &(struct faults){{x, -1}, {-1, -1}});
            CHECK(suspects[x] && count(suspects, n) <= 3);
        }
}

TEST(both_ends_of_each_slow_link_are_suspects_with_few_others)
{
    bool suspects[NODES_MAX];
    for (int n = 2; n <= NODES_MAX; n++)
        for (int a = 0; a < n; a++)
            for (int b = a + 1; b < n; b++) {
                bisect(suspects, n, &(struct faults){{-1, -1}, {a, b}});
                CHECK(suspects[a] && suspects[b] && count(suspects, n) <= 3);
            }
}

TEST(two_slow_nodes_are_both_suspects)
{
    bool suspects[NODES_MAX];
    for (int n = 2; n <= NODES_MAX; n++)
        for (int a = 0; a < n; a++)
            for (int b = a + 1; b < n; b++) {
                bisect(suspects, n, &(struct faults){{a, b}, {-1, -1}});
                CHECK(suspects[a] && suspects[b] && count(suspects, n) <= 6);
            }
}

TEST(a_fault_that_passes_leaves_no_suspect)
{
    AUTO(pairs_bisect) struct pairs_bisect *b = pairs_bisect_new(16);
    int group[16], rounds = 0, groups;
    while ((groups = pairs_bisect_round(b, group)) > 0) {
        bool slow[32] = {rounds++ == 0}; /* only all of them together */
        pairs_bisect_answer(b, slow);
    }
    CHECK_INT(rounds, 4);
    for (int i = 0; i < 16; i++)
        CHECK(!pairs_bisect_suspects(b, i));
}
