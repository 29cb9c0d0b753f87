/* pareto - Pareto sets and hypervolumes of several objectives. Smaller values are better.
 *
 * y is n x m: one row per point, one column per objective, all finite. A point dominates another if
 * it is not larger in any objective and smaller in at least one. */
#pragma once

#include <stddef.h>

/* Finds the rows that no other row dominates. Writes their indices into `front`, which has room for
 * n, and returns their number. The order is by the first objective, then by the second, and so on;
 * equal rows keep their order and are all included. Costs O(m n (log n + result)). */
size_t pareto_front(const double *y, size_t n, size_t m, size_t *front);

/* Sets ref[0 … m - 1] to the reference point of hypervolumes: in each objective the worst value of
 * all rows. n > 0. (If it were the worst value of the Pareto set alone, volume beyond the ends of
 * the set would not count.) */
void pareto_reference(const double *y, size_t n, size_t m, double *ref);

/* Returns ln E[V], where V is the volume that a new point adds to the hypervolume of `front` below
 * `ref`. The two objectives of the new point are independent and normal with means mu and
 * deviations sd > 0. Sets `grad` to the derivatives of ln E[V] by mu[0], mu[1], sd[0], sd[1].
 * `front` (n x 2) is ordered by the first objective, as pareto_front() returns it. It may contain
 * dominated rows and rows beyond `ref`. n may be 0.
 *
 * The value is exact (M. Emmerich, A. Deutz and J. Klinkenberg, "Hypervolume-based expected
 * improvement: monotonicity properties and exact computation", CEC 2011). It is a sum over the n +
 * 1 strips between the points, as in K. Yang et al., "Efficient computation of expected hypervolume
 * improvement using box decomposition algorithms", J. Global Optim. 75 (2019). All computations use
 * logarithms (S. Ament et al., "Unexpected improvements to expected improvement for Bayesian
 * optimization", NeurIPS 2023), so that the value is finite and its slope usable even if the
 * improvement is too small for a double. For a point 40 deviations away the value is about -800.
 * Costs O(n), about 150 ns per point of `front`. */
double pareto_log_ehvi2(const double *front, size_t n, const double ref[2], const double mu[2],
                        const double sd[2], double grad[4]);
