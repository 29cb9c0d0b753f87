#include "collectives/comm/subgroup.h"

#include <errno.h>

int subgroup_split(int *members, const struct subgroup_key *keys, int size, int rank)
{
    int n = 0;
    for (int r = 0; r < size && keys[rank].color >= 0; r++) {
        if (keys[r].color != keys[rank].color)
            continue;
        int at = n++; /* insertion sort; equal keys keep the order of ranks */
        for (; at > 0 && keys[members[at - 1]].key > keys[r].key; at--)
            members[at] = members[at - 1];
        members[at] = r;
    }
    return n;
}

int subgroup_index(const int *members, int n, int rank)
{
    for (int i = 0; i < n; i++)
        if (members[i] == rank)
            return i;
    return -1;
}

int subgroup_shrink(int *members, const int *without, int n, int size, int rank, struct err *e)
{
    for (int i = 0; i < n; i++) {
        if (without[i] < 0 || without[i] >= size)
            return err_set(e, -EINVAL, "cannot exclude rank %d: ranks are 0 to %d", without[i],
                           size - 1);
        if (without[i] == rank) {
            err_set(e, -EINVAL, "rank %d cannot exclude itself", rank);
            return err_hint(e, "drover_comm_shrink() on the remaining ranks only");
        }
    }
    int n_members = 0;
    for (int r = 0; r < size; r++)
        if (subgroup_index(without, n, r) < 0)
            members[n_members++] = r;
    return n_members;
}
