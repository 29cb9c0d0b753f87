/* verify - inputs whose collective is known exactly, in whatever order a library computes it, and
 * the count of elements that came out otherwise.
 *
 * Element i of rank r's input depends on r, on i modulo VERIFY_PERIOD and on a seed. The period is
 * prime, so that a piece that lands at a wrong place hardly ever looks right, and expectations are
 * computed for one period only. Values are whole numbers so small that no sum or product over the
 * ranks is rounded in the type; in types too small for that, some ranks add 0 or multiply by 1. */
#ifndef DROVER_VERIFY_H
#define DROVER_VERIFY_H

#include <stddef.h>
#include <stdint.h>

#include "collectives/backend.h"

enum { VERIFY_PERIOD = 65521 };

struct verify {
    enum backend_coll coll;
    enum drover_type type;
    enum drover_op op;
    int root, ranks;
    uint64_t seed;
};

/* Elements 0 … n-1 of `rank`'s input; n <= VERIFY_PERIOD, further ones repeat these. */
void verify_input(const struct verify *v, int rank, void *out, size_t n);

/* An output comes in blocks: one, or one from every rank. They have `count` elements each, but
 * alltoallv's, see busbw_v_count(). */
int verify_blocks(const struct verify *v);

/* Elements 0 … n-1 of a block of `rank`'s output, further ones repeat these. */
void verify_expected(const struct verify *v, int rank, int block, size_t count, void *out,
                     size_t n);

/* How many of n elements differ. The mean of floats may be off by 2 units in the last place (NCCL
 * multiplies by 1/n first); everything else is exact. */
uint64_t verify_wrong(const struct verify *v, const void *got, const void *expected, size_t n);

#endif
