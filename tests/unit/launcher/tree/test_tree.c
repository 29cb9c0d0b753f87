/* tree: parents, children, ways and depths of trees of every small size. */
#include "launcher/tree/tree.h"

#include <limits.h>

#include "tests/unit/kit_tree.h"
#include "tests/unit/test.h"

TEST(up_to_the_radix_all_nodes_are_children_of_the_launcher)
{
    struct tree t = {.nodes = 32, .radix = 32};
    int first;
    CHECK_INT(tree_children(&t, TREE_LAUNCHER, &first), 32);
    CHECK_INT(first, 0);
    for (int i = 0; i < 32; i++) {
        CHECK_INT(tree_parent(&t, i), TREE_LAUNCHER);
        CHECK_INT(tree_children(&t, i, &first), 0);
        CHECK_INT(kit_tree_depth(&t, i), 1);
    }
}

TEST(one_node_more_than_the_radix_is_below_the_first)
{
    struct tree t = {.nodes = 33, .radix = 32};
    int first;
    CHECK_INT(tree_parent(&t, 32), 0);
    CHECK_INT(tree_children(&t, 0, &first), 1);
    CHECK_INT(first, 32);
    CHECK_INT(tree_children(&t, 1, &first), 0);
    CHECK_INT(kit_tree_depth(&t, 32), 2);
    CHECK_INT(tree_next_hop(&t, TREE_LAUNCHER, 32), 0);
    CHECK(tree_is_below(&t, 0, 32) && !tree_is_below(&t, 1, 32));
}

/* Everything about a tree follows from tree_parent(): compares with that, without a formula. */
static void check_tree(const struct tree *t)
{
    int total = 0;
    for (int at = TREE_LAUNCHER; at < t->nodes; at++) {
        int first, count = tree_children(t, at, &first);
        total += count;
        CHECK(count >= 0 && count <= t->radix);
        for (int i = 0; i < t->nodes; i++)
            CHECK((tree_parent(t, i) == at) == (i >= first && i < first + count));
        for (int to = 0; to < t->nodes; to++) {
            int hop = TREE_LAUNCHER - 1, way = to, depth = 1;
            for (; way != at && way != TREE_LAUNCHER; way = tree_parent(t, way)) {
                hop = way;
                depth++;
            }
            CHECK_INT(tree_is_below(t, at, to), way == at);
            CHECK_INT(tree_next_hop(t, at, to), way == at ? hop : TREE_LAUNCHER - 1);
            if (at == TREE_LAUNCHER)
                CHECK_INT(kit_tree_depth(t, to), depth - 1);
        }
    }
    CHECK_INT(total, t->nodes);
}

TEST(children_ways_and_depths_agree_with_the_parents)
{
    for (int radix = 1; radix <= 5; radix++)
        for (int nodes = 1; nodes <= 45; nodes++)
            check_tree(&(struct tree){.nodes = nodes, .radix = radix});
}

static int size_of(const struct tree *t, int top)
{
    int size = 0;
    for (int i = 0; i < t->nodes; i++)
        size += tree_is_below(t, top, i);
    return size;
}

TEST(the_subtrees_of_the_launcher_differ_by_few_nodes)
{
    static const int sizes[] = {100, 1000, 1056, 1057, 4096};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct tree t = {.nodes = sizes[s], .radix = TREE_RADIX};
        int least = INT_MAX, most = 0;
        for (int i = 0; i < TREE_RADIX; i++) {
            int size = size_of(&t, i);
            least = size < least ? size : least;
            most = size > most ? size : most;
        }
        if (most - least > 1)
            FAIL("%d nodes: subtrees of %d to %d nodes", t.nodes, least, most);
    }
}

TEST(the_largest_tree_does_not_overflow)
{
    struct tree t = {.nodes = INT_MAX, .radix = 65536};
    int first;
    CHECK_INT(tree_children(&t, INT_MAX - 1, &first), 0);
    CHECK_INT(tree_children(&t, 65536, &first), 0);
    CHECK_INT(kit_tree_depth(&t, INT_MAX - 1), 2);
}

TEST(sixteen_thousand_nodes_are_three_hops_away)
{
    struct tree t = {.nodes = 16384, .radix = TREE_RADIX};
    CHECK_INT(kit_tree_depth(&t, 16383), 3);
}
