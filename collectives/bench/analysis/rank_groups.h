/* rank_groups - divides the ranks into groups that run the same operation in parallel
 * (NCCL_TESTS_SPLIT).
 *
 * See nccl-tests, README.md, "Running multiple operations in parallel". */
#pragma once

#include "common/err.h"

/* A rank's colour is `rank op value`; ranks with the same colour are a group. If zero-initialised,
 * every rank has colour 0. */
struct rank_groups {
    char op; /* '&', '|', '%' or '/'; 0: none */
    int value;
};

/* Reads `text` ("MOD 8", "/0b10", "and 0x7") or `mask`, a hexadecimal number for "and", which takes
 * precedence. Each may be NULL.
 *   -EINVAL  not of this form, a value above INT_MAX, or a division by 0 */
int rank_groups_read(struct rank_groups *out, const char *text, const char *mask, struct err *e);

int rank_groups_color(const struct rank_groups *s, int rank);

/* Writes the members of the group of `rank` to `members`, in order. Returns their number. `members`
 * has room for all ranks; it may be NULL. */
int rank_groups_group(int *members, const struct rank_groups *s, int ranks, int rank);

/* Returns the number of groups. Sets *smallest to the number of ranks in the smallest group. The
 * cost is ranks^2. */
int rank_groups_groups(const struct rank_groups *s, int ranks, int *smallest);
