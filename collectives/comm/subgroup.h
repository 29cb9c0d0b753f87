/* part - who is in a communicator that is made of another one. */
#ifndef DROVER_SUBGROUP_H
#define DROVER_SUBGROUP_H

#include "common/err.h"

/* What a rank asks of a split. */
struct subgroup_key {
    int color, key;
};

/* The ranks of `rank`'s colour, in the order of keys, then of ranks, go to members, which has room
 * for `size`. Says how many: none without a colour. */
int subgroup_split(int *members, const struct subgroup_key *wishes, int size, int rank);

/* The ranks that are not among the `n` in `without`, in their order. `size` is of both the parent
 * and the room in members. Says how many.
 *   -EINVAL  `without` has `rank`, or one that there is not */
int subgroup_shrink(int *members, const int *without, int n, int size, int rank, struct err *e);

/* Where `rank` stands among `n` members; -1: nowhere. */
int subgroup_index(const int *members, int n, int rank);

#endif
