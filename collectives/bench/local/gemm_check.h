/* gemm_check - checks a product C = A B of two n x n matrices of small integers.
 *
 * All sums are integers below 2^24 up to n = 2^20, so C is exact in float, in any order of the
 * additions: a correct device gives the same bits always. The check is Freivalds' (1977): C x is
 * compared with A (B x) for one vector x of odd integers, which costs n^2 instead of n^3. A row
 * with one wrong element is always found; several wrong elements of a row cancel each other out
 * only by chance. Matrices are stored by columns, as BLAS does. */
#pragma once

#include <stdint.h>

#include "common/mem.h"

struct gemm_check {
    int n;
    signed char *a, *b;   /* n^2 elements each */
    double *x, *expected; /* A (B x) */
    double *product;      /* scratch: C x */
};

/* Makes the matrices A and B of n x n elements, from -4 to 4. Returns NULL if there is no memory:
 * 2 n^2 bytes. Cost 3 n^2. */
struct gemm_check *gemm_check_new(int n);
void gemm_check_free(struct gemm_check *g);
AUTO_DEFINE(gemm_check, struct gemm_check *, gemm_check_free)

/* Returns the number of rows of C that have wrong elements. A NaN is wrong. Cost n^2. */
uint64_t gemm_check_wrong_rows(const struct gemm_check *g, const float *c);
