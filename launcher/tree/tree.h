/* tree - how the agents of a job are connected: a tree of nodes below the launcher. Pure.
 *
 * Up to `radix` nodes are children of the launcher (a star). The next radix² nodes are their
 * children, and so on: all depths are full but the last, whose nodes are spread evenly over the
 * nodes above. So no subtree has many more nodes than another, and the depth is the least possible.
 * A node's parent has a lower number. Launchers such as PRRTE ("routed radix") and slurmd
 * (TreeWidth) use such trees. */
#pragma once

#include <stdbool.h>

enum {
    TREE_LAUNCHER = -1, /* the launcher's number, instead of a node's */
    TREE_RADIX = 32     /* default */
};

struct tree {
    int nodes, radix; /* both > 0 */
};

/* Returns a node or TREE_LAUNCHER. */
int tree_parent(const struct tree *t, int node);
/* Returns the number of children of a node or of the launcher. They are *first, *first + 1, … */
int tree_children(const struct tree *t, int at, int *first);
/* Returns true if `node` is `top` or below it. Everything is below TREE_LAUNCHER. */
bool tree_is_below(const struct tree *t, int top, int node);
/* Returns the child of `at` that is `to` or leads to it, or TREE_LAUNCHER - 1 if `to` is not below
 * `at`: the way is then through at's parent. */
int tree_next_hop(const struct tree *t, int at, int to);
