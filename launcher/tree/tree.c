#include "launcher/tree/tree.h"

int tree_parent(const struct tree *t, int node)
{
    return node < t->radix ? TREE_LAUNCHER : node / t->radix - 1;
}

int tree_children(const struct tree *t, int at, int *first)
{
    /* A product of int may overflow: there are at most INT_MAX nodes. */
    long long from = ((long long)at + 1) * t->radix;
    if (from >= t->nodes) {
        *first = t->nodes;
        return 0;
    }
    *first = (int)from;
    return t->nodes - *first < t->radix ? t->nodes - *first : t->radix;
}

bool tree_is_below(const struct tree *t, int top, int node)
{
    while (node > top) /* a parent's number is less than its child's */
        node = tree_parent(t, node);
    return node == top;
}

int tree_next_hop(const struct tree *t, int at, int to)
{
    for (int hop = to; hop > at; hop = tree_parent(t, hop))
        if (tree_parent(t, hop) == at)
            return hop;
    return TREE_LAUNCHER - 1;
}

int tree_depth(const struct tree *t, int node)
{
    int depth = 0;
    for (; node != TREE_LAUNCHER; node = tree_parent(t, node))
        depth++;
    return depth;
}
