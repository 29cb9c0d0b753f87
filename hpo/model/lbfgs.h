/* lbfgs - minimises a smooth function in a box: limited-memory BFGS with projected steps.
 *
 * It never calls the function but requests its value, so that a caller can advance many searches at
 * the same time and compute all their points with one matrix product.
 *
 *      while (lbfgs_is_active(l)) { f = fn(lbfgs_x(l), g);  lbfgs_update(l, f, g); }
 *
 * Directions come from the two-loop recursion (Nocedal & Wright 2006, algorithm 7.4) over the
 * variables that are not held at a bound. Steps are found by backtracking along the projected path
 * with quadratic interpolation until the Armijo condition holds (Bertsekas 1976). If a value is not
 * finite the step was too long. Cost of a step: 4 m n, m = 8. */
#ifndef DROVER_LBFGS_H
#define DROVER_LBFGS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/mem.h"

struct lbfgs;

/* n variables in [lo[i], hi[i]]; starts at x, moved into the box. Copies all. Requests at most
 * `evals` values, and ends earlier if a step improves by less than `tol`. */
struct lbfgs *lbfgs_new(size_t n, const double *lo, const double *hi, const double *x, int evals,
                        double tol);
void lbfgs_free(struct lbfgs *l);
AUTO_DEFINE(lbfgs, struct lbfgs *, lbfgs_free)

bool lbfgs_is_active(const struct lbfgs *l);
/* The requested point; borrowed until the next lbfgs_update(). */
const double *lbfgs_x(const struct lbfgs *l);
/* Sets the value at the requested point and its gradient (n). */
void lbfgs_update(struct lbfgs *l, double f, const double *g);

/* The best value so far (INFINITY: none was finite), and its point. */
double lbfgs_best(const struct lbfgs *l, const double **x);
/* The number of values so far. */
int lbfgs_evals(const struct lbfgs *l);

#endif
