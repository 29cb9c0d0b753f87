/* verify - makes inputs for which the exact result of a collective is known, and compares results
 * with it.
 *
 * Element i of rank r's input depends on r, on i modulo VERIFY_PERIOD and on a seed. The period is
 * prime, so that data at a wrong position rarely looks right. Expected values are computed only for
 * one period. Values are small whole numbers, so that no sum or product over the ranks is rounded
 * in the type, in any order. If the type is too small for that, some ranks add 0 or multiply by 1.
 * For a sum, the elements of each rank have another remainder modulo the number of ranks, if the
 * type is large enough. A single wrong sum then shows which rank's contribution is missing. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "collectives/bench/analysis/traffic.h"
#include "collectives/comm/backend.h"

enum {
    VERIFY_PERIOD = 65521,
    VERIFY_POISON = 0xa5, /* value of each byte of an output before the collective */
    VERIFY_SOME = 16,
};

struct verify {
    enum collective coll;
    enum drover_type type;
    enum drover_op op;
    int root, ranks;
    uint64_t seed;
    const struct traffic *traffic; /* only for an alltoallv */
};

/* Writes elements 0 … n-1 of `rank`'s input; n <= VERIFY_PERIOD. Later elements repeat them. */
void verify_input(const struct verify *v, int rank, void *out, size_t n);

/* Returns the alltoallv that `v` describes. */
struct traffic_call verify_traffic(const struct verify *v, size_t count);

/* Returns a rank's factor of a DROVER_MULSUM, as in nccl-tests. */
double verify_factor(int rank);

/* Returns the number of blocks in an output: one, or one per rank. A block has `count` elements;
 * for alltoallv see traffic_count(). */
int verify_blocks(const struct verify *v);

/* Writes the expected elements 0 … n-1 of a block of `rank`'s output; later elements repeat
 * them. */
void verify_expected(const struct verify *v, int rank, int block, size_t count, void *out,
                     size_t n);

/* Returns the tolerance of the comparison in units in the last place (ulps_differ()). */
int64_t verify_ulps(const struct verify *v);

/* Returns the number of elements that differ. The mean of floats over n ranks may be off by 2 units
 * in the last place, and n/2 more if n is not a power of 2 (NCCL multiplies by 1/n first). All
 * other results are exact. */
uint64_t verify_wrong(const struct verify *v, const void *got, const void *expected, size_t n);

/* The first wrong elements of a block. A plain value that ranks send to each other. */
struct verify_finding {
    int block;
    size_t n;               /* number of elements, at most VERIFY_SOME */
    size_t at[VERIFY_SOME]; /* positions in the block */
    double expected, got;   /* values of the first wrong element */
    uint64_t bits[VERIFY_SOME];
};

/* Adds those of n elements of the block that are wrong. got[0] is element `first` of the block. */
void verify_find(const struct verify *v, struct verify_finding *f, const void *got,
                 const void *expected, size_t first, size_t n);

enum verify_cause {
    VERIFY_UNKNOWN,
    VERIFY_UNTOUCHED,     /* nothing was written there */
    VERIFY_MISSING,       /* the reduction lacks a rank's input … */
    VERIFY_COUNTED_TWICE, /* … or contains it twice */
    VERIFY_FROM_OTHER,    /* it holds another rank's data */
};
struct verify_diagnosis {
    enum verify_cause cause;
    int rank;  /* the first rank that explains all elements; for VERIFY_UNTOUCHED, the rank whose
                  data  are missing, -1 for a reduction */
    int ranks; /* number of ranks that explain them; 1: certain */
};

/* Finds the likely cause of a finding in `rank`'s output, in blocks of `count` elements. With n
 * ranks, a missing rank is identified by one element of a sum, or of most averages of floats, if
 * the type holds 2n^2 exactly. Smaller types, products, and minima and maxima that came from the
 * rank need a few elements. The cost is n^2. */
struct verify_diagnosis verify_diagnose(const struct verify *v, const struct verify_finding *f,
                                        int rank, size_t count);
