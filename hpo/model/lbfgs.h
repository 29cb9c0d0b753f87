/* lbfgs - minimises a smooth function in a box: limited-memory BFGS with projected steps.
 *
 * lbfgs does not call the function but requests its value at a point. So a caller can advance many
 * searches at the same time and compute the values at all their points with one matrix product.
 *
 *      while (lbfgs_is_active(l)) { f = fn(lbfgs_x(l), g);  lbfgs_update(l, f, g); }
 *
 * Directions come from the two-loop recursion (Nocedal & Wright 2006, algorithm 7.4) over the
 * variables that are not held at a bound. Steps are found by backtracking along the projected path
 * with quadratic interpolation until the Armijo condition holds (Bertsekas 1976). A value that is
 * not finite means that the step was too long. A step costs 4 m n flops with m = 8. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/mem.h"

struct lbfgs;

/* Returns a new search over n variables in [lo[i], hi[i]]; the caller frees it. The search starts
 * at x, moved into the box. It requests at most `evals` values, and ends earlier if a step improves
 * the value by less than `tol`. Copies the arrays. */
struct lbfgs *lbfgs_new(size_t n, const double *lo, const double *hi, const double *x, int evals,
                        double tol);
void lbfgs_free(struct lbfgs *l);
AUTO_DEFINE(lbfgs, struct lbfgs *, lbfgs_free)

bool lbfgs_is_active(const struct lbfgs *l);
/* Returns the requested point, borrowed until the next lbfgs_update(). */
const double *lbfgs_x(const struct lbfgs *l);
/* Passes the value and the gradient (n numbers) at the requested point to the search. */
void lbfgs_update(struct lbfgs *l, double f, const double *g);

/* Returns the best value so far, or INFINITY if none was finite. Sets `*x` to its point,
 * borrowed. */
double lbfgs_best(const struct lbfgs *l, const double **x);
