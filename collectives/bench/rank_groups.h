/* split - NCCL_TESTS_SPLIT: the ranks in groups that work side by side, each on the same operation
 * (nccl-tests, README.md, "Running multiple operations in parallel"). */
#ifndef DROVER_RANK_GROUPS_H
#define DROVER_RANK_GROUPS_H

#include "common/err.h"

/* A rank's colour is `rank op value`; all zero: every rank has 0. */
struct rank_groups {
    char op; /* '&', '|', '%' or '/'; 0: none */
    int value;
};

/* `text` is "MOD 8", "/0b10", "and 0x7"; `mask` is a hexadecimal number to "and" with, and comes
 * first. Each may be NULL.
 *   -EINVAL  neither of that, a value above INT_MAX, or a division by 0 */
int rank_groups_read(struct rank_groups *out, const char *text, const char *mask, struct err *e);

int rank_groups_color(const struct rank_groups *s, int rank);

/* Those of `rank`'s colour among `ranks`, in their order; `members` has room for all, and may be
 * NULL. Says how many. */
int rank_groups_group(int *members, const struct rank_groups *s, int ranks, int rank);

/* How many groups there are; *least is how many ranks the smallest has. Cost ranks^2. */
int rank_groups_groups(const struct rank_groups *s, int ranks, int *least);

#endif
