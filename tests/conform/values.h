/* values - what each rank brings to a collective, and what must come of it, worked out here in
 * double and in 64-bit whole numbers, and rounded to the type once. */
#ifndef DROVER_VALUES_H
#define DROVER_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/comm/backend.h"

/* a op b in their own type; for DROVER_AVG the sum, which is divided at the end. */
#define VALUES_COMBINE(a, b, op)                  \
    ((op) == DROVER_PROD  ? (a) * (b)             \
     : (op) == DROVER_MIN ? (a) < (b) ? (a) : (b) \
     : (op) == DROVER_MAX ? (a) > (b) ? (a) : (b) \
                          : (a) + (b))

/* A rank's factor of a DROVER_MULSUM. */
#define VALUES_FACTOR(rank) (1 + (rank) % 2)

/* One collective over `size` ranks of a communicator, of which this is `rank`. */
struct values {
    enum collective coll;
    enum drover_type type;
    enum drover_op op;
    size_t count;
    int root, rank, size;
    uint64_t seed;
    bool rough; /* values whose sum or product is not exact; only for 2 ranks */
};

/* How many elements this rank's input and output have; 0 where it has none. */
size_t values_in(const struct values *v);
size_t values_out(const struct values *v);

/* Element i of `rank`'s input, to element `at` of an array. */
void values_input(const struct values *v, int rank, size_t i, void *array, size_t at);
/* Element i of this rank's output. */
void values_expected(const struct values *v, size_t i, void *array);

/* Whether element i is right. Bits must be the same, but for a mean over a number of ranks that is
 * no power of 2: dividing before or after adding makes a difference. */
bool values_same(const struct values *v, const void *got, const void *expected, size_t i);

/* Element i for messages. */
enum { VALUES_TEXT = 32 };
void values_text(char out[VALUES_TEXT], const void *array, size_t i, enum drover_type t);

/* A random number for any two others. */
uint64_t values_random(uint64_t seed, uint64_t i);

#endif
