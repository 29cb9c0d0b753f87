/* subgroup - membership of a communicator that is created from another one. */
#ifndef DROVER_SUBGROUP_H
#define DROVER_SUBGROUP_H

#include "common/err.h"

/* A rank's arguments of a split. */
struct subgroup_key {
    int color, key;
};

/* Writes the ranks with the colour of `rank`, ordered by key, then by rank, to `members`, which has
 * room for `size`. Returns their number; 0 if `rank` has no colour. */
int subgroup_split(int *members, const struct subgroup_key *keys, int size, int rank);

/* Writes the ranks 0 … size-1 that are not among the `n` ranks in `without` to `members`, in order,
 * and returns their number. `members` has room for `size`. -EINVAL  `without` has `rank`, or a rank
 * outside of 0 … size-1 */
int subgroup_shrink(int *members, const int *without, int n, int size, int rank, struct err *e);

/* Returns the position of `rank` among `n` members; -1: it is not a member. */
int subgroup_index(const int *members, int n, int rank);

#endif
