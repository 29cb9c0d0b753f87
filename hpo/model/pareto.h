/* pareto - several objectives at once, each the smaller the better.
 *
 * y is n x m: a point a row, an objective a column, all finite. One point dominates another where
 * it is nowhere larger and somewhere smaller. */
#ifndef DROVER_PARETO_H
#define DROVER_PARETO_H

#include <stddef.h>

/* The rows that no other dominates: their indices, in the order of the first objective, then of the
 * second, and so on, equal rows in theirs: all of those are there. front[0 … n - 1] is room for
 * them; returns how many there are. Cost O(m n (log n + front)). */
size_t pareto_front(const double *y, size_t n, size_t m, size_t *front);

/* ref[0 … m - 1]: where hypervolumes are measured from: in each objective the worst of all rows.
 * (Not of the front alone: what lies beyond the front's ends would count for nothing.) n > 0. */
void pareto_reference(const double *y, size_t n, size_t m, double *ref);

/* The volume that the rows dominate below `ref` (m); rows beyond it add nothing. m >= 2. By
 * slices along the last objective (L. While et al., "A faster algorithm for calculating
 * hypervolume", IEEE Trans. Evol. Comput. 10 (2006)): exact, O(n^(m - 1) log n). */
double pareto_hypervolume(const double *y, size_t n, size_t m, const double *ref);

/* ln E[how much a point adds to the hypervolume of `front` below `ref`], where its two objectives
 * are independent, normal with means mu and deviations sd > 0, and its derivatives by mu[0], mu[1],
 * sd[0], sd[1]. `front` (n x 2) is in the order of the first objective, as pareto_front() gives it;
 * rows that others dominate or that lie beyond `ref` do no harm. n may be 0.
 *
 * Exact: M. Emmerich, A. Deutz and J. Klinkenberg, "Hypervolume-based expected improvement:
 * monotonicity properties and exact computation", CEC 2011; a sum over the n + 1 strips between the
 * points, as in K. Yang et al., "Efficient computation of expected hypervolume improvement using
 * box decomposition algorithms", J. Global Optim. 75 (2019). In logarithms throughout
 * (S. Ament et al., "Unexpected improvements to expected improvement for Bayesian optimization",
 * NeurIPS 2023), so that it is finite and its slope of use where the improvement is no double: a
 * point 40 deviations off has about -800. Cost O(n), some 150 ns a point. */
double pareto_log_ehvi2(const double *front, size_t n, const double ref[2], const double mu[2],
                        const double sd[2], double grad[4]);

#endif
