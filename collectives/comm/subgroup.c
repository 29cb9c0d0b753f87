#include "collectives/comm/subgroup.h"

#include <errno.h>

int subgroup_split(int *members, const struct subgroup_key *wishes, int size, int rank)
{
    int n = 0;
    for (int r = 0; r < size && wishes[rank].color >= 0; r++) {
        if (wishes[r].color != wishes[rank].color)
            continue;
        int at = n++; /* sorted in; equal keys stay in the order of ranks */
        for (; at > 0 && wishes[members[at - 1]].key > wishes[r].key; at--)
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
            return err_set(e, -EINVAL, "there is no rank %d to be left out, only 0 to %d",
                           without[i], size - 1);
        if (without[i] == rank) {
            err_set(e, -EINVAL, "rank %d is to be left out, and calls itself", rank);
            return err_hint(e, "only the ranks that stay call drover_comm_shrink()");
        }
    }
    int left = 0;
    for (int r = 0; r < size; r++)
        if (subgroup_index(without, n, r) < 0)
            members[left++] = r;
    return left;
}
