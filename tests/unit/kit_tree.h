/* kit_tree - what tests count in a tree of agents. */
#pragma once

#include "launcher/tree/tree_members.h"

/* Returns the number of hops from the launcher to a node: 1 for its children. */
static inline int kit_tree_depth(const struct tree *t, int node)
{
    int depth = 0;
    for (; node != TREE_LAUNCHER; node = tree_parent(t, node))
        depth++;
    return depth;
}

/* Returns the number of the `nodes` nodes that are in the state, and with `*first` the first one
 * (-1: none). */
static inline int kit_tree_count(const struct tree_members *m, int nodes, enum tree_member_state s,
                                 int *first)
{
    int count = 0;
    *first = -1;
    for (int i = nodes - 1; i >= 0; i--)
        if (tree_members_state(m, i) == s) {
            *first = i;
            count++;
        }
    return count;
}
