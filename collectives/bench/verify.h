/* verify - inputs whose collective is known exactly, in whatever order a library computes it, and
 * the count of elements that came out otherwise.
 *
 * Element i of rank r's input depends on r, on i modulo VERIFY_PERIOD and on a seed. The period is
 * prime, so that a piece that lands at a wrong place hardly ever looks right, and expectations are
 * computed for one period only. For a sum, each rank's elements leave another remainder when they
 * are divided by the number of ranks, so that a single wrong sum tells whose part it lacks, where
 * the type has room for that. Values are whole numbers so small that no sum or product over the
 * ranks is rounded in the type; in types too small for that, some ranks add 0 or multiply by 1. */
#ifndef DROVER_VERIFY_H
#define DROVER_VERIFY_H

#include <stddef.h>
#include <stdint.h>

#include "collectives/comm/backend.h"

enum {
    VERIFY_PERIOD = 65521,
    VERIFY_POISON = 0xa5, /* each byte of an output before the collective */
    VERIFY_SOME = 16,
};

struct verify {
    enum collective coll;
    enum drover_type type;
    enum drover_op op;
    int root, ranks;
    uint64_t seed;
};

/* Elements 0 … n-1 of `rank`'s input; n <= VERIFY_PERIOD, further ones repeat these. */
void verify_input(const struct verify *v, int rank, void *out, size_t n);

/* A rank's factor of a DROVER_MULSUM, as nccl-tests has it. */
double verify_factor(int rank);

/* An output comes in blocks: one, or one from every rank. They have `count` elements each, but
 * alltoallv's, see busbw_v_count(). */
int verify_blocks(const struct verify *v);

/* Elements 0 … n-1 of a block of `rank`'s output, further ones repeat these. */
void verify_expected(const struct verify *v, int rank, int block, size_t count, void *out,
                     size_t n);

/* How many of n elements differ. The mean of floats over n ranks may be off by 2 units in the last
 * place, and n/2 more where n is no power of 2 (NCCL multiplies by 1/n first); everything else is
 * exact. */
uint64_t verify_wrong(const struct verify *v, const void *got, const void *expected, size_t n);

/* What is wrong with a block: its first wrong elements. A plain value that ranks send. */
struct verify_finding {
    int block;
    size_t n;               /* at most VERIFY_SOME */
    size_t at[VERIFY_SOME]; /* in the block */
    double expected, got;   /* of the first */
    uint64_t bits[VERIFY_SOME];
};

/* Adds what is wrong among n elements of the block, of which got[0] is number `first`. */
void verify_find(const struct verify *v, struct verify_finding *f, const void *got,
                 const void *expected, size_t first, size_t n);

enum verify_cause {
    VERIFY_UNKNOWN,
    VERIFY_UNTOUCHED,     /* nothing was written there */
    VERIFY_MISSING,       /* the reduction lacks a rank's part … */
    VERIFY_COUNTED_TWICE, /* … or has it twice */
    VERIFY_FROM_OTHER,    /* it holds what another rank has sent */
};
struct verify_diagnosis {
    enum verify_cause cause;
    int rank;  /* the first that explains all of the elements; of UNTOUCHED: whose data should be
                  there, -1 for a reduction */
    int ranks; /* how many explain them: 1 where it is certain */
};

/* Why a block of `rank`'s output, of `count` elements, may be as it was found. A rank that is
 * missing can be told from one element of a sum, and of most averages of floats, in a type that
 * holds 2n^2 exactly (n ranks); from a few elements of smaller types, products, and minima and
 * maxima that the rank had. Cost n^2. */
struct verify_diagnosis verify_diagnose(const struct verify *v, const struct verify_finding *f,
                                        int rank, size_t count);

#endif
