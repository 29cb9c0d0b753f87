/* values - inputs of the conformance kit, and the expected results.
 *
 * They are computed in double or in 64-bit whole numbers, and rounded to the type once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/comm/backend.h"

/* a op b; for DROVER_AVG the sum, which is divided at the end. */
#define VALUES_COMBINE(a, b, op)                  \
    ((op) == DROVER_PROD  ? (a) * (b)             \
     : (op) == DROVER_MIN ? (a) < (b) ? (a) : (b) \
     : (op) == DROVER_MAX ? (a) > (b) ? (a) : (b) \
                          : (a) + (b))

/* A rank's factor for DROVER_MULSUM. */
#define VALUES_FACTOR(rank) (1 + (rank) % 2)

/* One call on a communicator of `size` ranks, as rank `rank`. */
struct values {
    enum collective coll;
    enum drover_type type;
    enum drover_op op;
    size_t count;
    int root, rank, size;
    uint64_t seed;
    size_t period; /* a rank's input repeats after so many elements; 0: it does not */
    bool rough;    /* values whose sum or product is rounded; only for 2 ranks */
};

/* Return the number of elements in this rank's input and output; 0: it has none. */
size_t values_in(const struct values *v);
size_t values_out(const struct values *v);

/* Writes element i of `rank`'s input to element `at` of an array. */
void values_input(const struct values *v, int rank, size_t i, void *array, size_t at);
/* Writes the expected element i of this rank's output to element i of an array. */
void values_expected(const struct values *v, size_t i, void *array);

/* Returns true if element i is right: the bits are the same. A mean over a number of ranks that is
 * not a power of 2 has a tolerance, since dividing before or after adding makes a difference. */
bool values_same(const struct values *v, const void *got, const void *expected, size_t i);

/* Formats element i for messages. */
enum { VALUES_TEXT = 32 };
void values_text(char out[VALUES_TEXT], const void *array, size_t i, enum drover_type t);

/* Returns a random number that depends on both arguments. */
uint64_t values_random(uint64_t seed, uint64_t i);
