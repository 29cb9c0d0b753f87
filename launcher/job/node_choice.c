#include "launcher/job/node_choice.h"

/* Returns the best node that is not chosen yet; -1: none. */
static int best(const struct node_choice *nodes, int count)
{
    int found = -1;
    for (int i = 0; i < count; i++)
        if (!nodes[i].out && !nodes[i].chosen &&
            (found < 0 || nodes[i].faults < nodes[found].faults))
            found = i;
    return found;
}

int node_choice_make(struct node_choice *nodes, int count, int min, int max)
{
    int usable = 0, n = 0;
    for (int i = 0; i < count; i++) {
        usable += !nodes[i].out;
        nodes[i].chosen = false;
    }
    if (usable < min)
        return usable;
    for (int i; n < max && (i = best(nodes, count)) >= 0; n++)
        nodes[i].chosen = true;
    return n;
}
