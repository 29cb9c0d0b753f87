#include "launcher/tree/tree.h"

/* The nodes of one depth, and their children. */
struct level {
    long long first, size; /* the nodes of this depth, if it is full */
    long long below;       /* nodes of the next depth that exist */
};

static long long least(long long a, long long b)
{
    return a < b ? a : b;
}

/* Returns the level of a node, or of the launcher. Products of int may overflow, those of long long
 * may not. */
static struct level level_of(const struct tree *t, int at)
{
    struct level l = {.first = TREE_LAUNCHER, .size = 1};
    while (at >= l.first + l.size) {
        l.first += l.size;
        l.size *= t->radix;
    }
    l.below = t->nodes - (l.first + l.size);
    l.below = l.below < 0 ? 0 : least(l.below, l.size * t->radix);
    return l;
}

/* Returns the number of the first child of the node with this index, among the nodes of its
 * depth. */
static long long first_below(const struct level *l, long long index)
{
    return (index * l->below + l->size - 1) / l->size;
}

int tree_parent(const struct tree *t, int node)
{
    struct level above = {.first = TREE_LAUNCHER, .size = 1};
    while (node >= above.first + above.size + above.size * t->radix) {
        above.first += above.size;
        above.size *= t->radix;
    }
    long long start = above.first + above.size;
    long long count = least(t->nodes - start, above.size * t->radix);
    return (int)(above.first + (node - start) * above.size / count);
}

int tree_children(const struct tree *t, int at, int *first)
{
    struct level l = level_of(t, at);
    long long from = first_below(&l, at - l.first), to = first_below(&l, at - l.first + 1);
    *first = (int)least(l.first + l.size + from, t->nodes);
    return (int)(to - from);
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
