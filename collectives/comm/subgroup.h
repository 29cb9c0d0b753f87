/* subgroup - determines the members of a communicator that is created from another one. */
#pragma once

#include "common/err.h"

/* The arguments with which a rank calls a split. */
struct subgroup_key {
    int color, key;
};

/* Writes to `members` all ranks that have the same colour as `rank`, ordered by key, then by rank.
 * `members` has room for `size`. Returns their number, or 0 if `rank` has no colour. */
int subgroup_split(int *members, const struct subgroup_key *keys, int size, int rank);

/* Writes to `members` all ranks of 0 … size - 1 that are not among the `n` ranks in `without`, in
 * order. `members` has room for `size`. Returns their number.
 *   -EINVAL  `without` has `rank`, or a rank outside of 0 … size - 1 */
int subgroup_shrink(int *members, const int *without, int n, int size, int rank, struct err *e);

/* Returns the position of `rank` among `n` members, or -1 if it is not a member. */
int subgroup_index(const int *members, int n, int rank);
