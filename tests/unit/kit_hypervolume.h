/* kit_hypervolume - the exact volume that points dominate, for what estimates or enlarges it. */
#pragma once

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "common/mem.h"

static inline int hypervolume_order(const void *a, const void *b, void *arg)
{
    size_t j = *(const size_t *)arg;
    double p = (*(const double *const *)a)[j], q = (*(const double *const *)b)[j];
    return (p > q) - (p < q);
}

/* Returns the volume that n points dominate below `ref` in the first m objectives. Reorders p[0 … n
 * - 1]. */
static inline double hypervolume_of(const double **p, size_t n, size_t m, const double *ref)
{
    size_t j = m > 2 ? m - 1 : 0;
    qsort_r(p, n, sizeof *p, hypervolume_order, &j);
    double sum = 0, ceiling = ref[1];
    for (size_t i = 0; i < n && p[i][j] < ref[j]; i++) {
        if (m > 2) { /* the slice up to the next point: p[0 … i] dominate parts of it */
            double next = i + 1 < n ? fmin(p[i + 1][j], ref[j]) : ref[j], depth = next - p[i][j];
            sum += depth > 0 ? depth * hypervolume_of(p, i + 1, m - 1, ref) : 0;
        } else if (p[i][1] < ceiling) {
            sum += (ref[0] - p[i][0]) * (ceiling - p[i][1]);
            ceiling = p[i][1];
        }
    }
    return sum;
}

/* Returns the volume that the rows dominate below `ref` (m numbers). Rows beyond `ref` add nothing.
 * m >= 2. The result is exact; it is computed by slices along the last objective (L. While et al.,
 * "A faster algorithm for calculating hypervolume", IEEE Trans. Evol. Comput. 10 (2006)). Costs
 * O(n^(m - 1) log n). */
static inline double hypervolume(const double *y, size_t n, size_t m, const double *ref)
{
    assert(m >= 2);
    AUTO(free) const double **p = xcalloc(n, sizeof *p);
    for (size_t i = 0; i < n; i++)
        p[i] = y + i * m;
    return hypervolume_of(p, n, m, ref);
}
