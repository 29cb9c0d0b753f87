/* gpt_vectors - the operations of examples/gpt/ops.h against the same formulas in double. The tests
 * run them on the host, and scripts/gpu-check on a GPU. */
#pragma once

#include "examples/gpt/ops.h"

/* B sequences of T tokens, C channels. H heads: attention only; H 0: all other operations. */
struct gpt_shape {
    int B, T, C, H;
    enum ops_attention how; /* of attention; a shape that cuDNN refuses is not run, and said */
    int low;                /* 1: all scores of attention are near -100 */
    int V;                  /* the vocabulary; 0: 256 */
};

/* Runs operations with random numbers of a fixed seed. Returns the number of results that are
 * wrong, and prints a line about each. *hash becomes the hash of all results: the same bits give
 * the same hash. verbose: prints the errors of the right results, too. */
int gpt_vectors(const struct ops_backend *be, enum ops_precision p, const struct gpt_shape *s,
                uint64_t *hash, int verbose);
