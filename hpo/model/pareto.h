/* pareto - several objectives at once; smaller values are better.
 *
 * y is n x m: one row per point, one column per objective, all finite. A point dominates another if
 * it is nowhere larger and somewhere smaller. */
#ifndef DROVER_PARETO_H
#define DROVER_PARETO_H

#include <stddef.h>

/* The indices of the rows that no other row dominates, ordered by the first objective, then by
 * the second, and so on; equal rows stay in order and are all included. front[0 … n - 1] is room
 * for them; returns their number. Cost O(m n (log n + front)). */
size_t pareto_front(const double *y, size_t n, size_t m, size_t *front);

/* ref[0 … m - 1]: the reference point of hypervolumes, the worst value of all rows in each
 * objective. (With the worst of the front alone, volume beyond the front's ends would count for
 * nothing.) n > 0. */
void pareto_reference(const double *y, size_t n, size_t m, double *ref);

/* The volume that the rows dominate below `ref` (m); rows beyond it add nothing. m >= 2.
 * Computed by slices along the last objective (L. While et al., "A faster algorithm for
 * calculating hypervolume", IEEE Trans. Evol. Comput. 10 (2006)): exact, O(n^(m - 1) log n). */
double pareto_hypervolume(const double *y, size_t n, size_t m, const double *ref);

/* ln E[the volume that a point adds to the hypervolume of `front` below `ref`], if its two
 * objectives are independent and normal with means mu and deviations sd > 0, and its derivatives by
 * mu[0], mu[1], sd[0], sd[1]. `front` (n x 2) is ordered by the first objective, as pareto_front()
 * returns it; dominated rows and rows beyond `ref` do no harm. n may be 0.
 *
 * Exact: M. Emmerich, A. Deutz and J. Klinkenberg, "Hypervolume-based expected improvement:
 * monotonicity properties and exact computation", CEC 2011; a sum over the n + 1 strips between the
 * points, as in K. Yang et al., "Efficient computation of expected hypervolume improvement using
 * box decomposition algorithms", J. Global Optim. 75 (2019). All computations use logarithms (S.
 * Ament et al., "Unexpected improvements to expected improvement for Bayesian optimization",
 * NeurIPS 2023), so that the value is finite and its slope usable if the improvement is too small
 * for a double: a point 40 deviations away has about -800. Cost O(n), about 150 ns per point. */
double pareto_log_ehvi2(const double *front, size_t n, const double ref[2], const double mu[2],
                        const double sd[2], double grad[4]);

#endif
