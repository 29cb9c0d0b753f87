/* lbfgs - minimises a smooth function in a box: limited-memory BFGS with projected steps.
 *
 * It never calls the function: it says where it wants it, so that a caller can take many searches
 * forward side by side and compute all their points with one matrix product.
 *
 *     while (lbfgs_wants(l)) { f = fn(lbfgs_x(l), g);  lbfgs_tell(l, f, g); }
 *
 * Directions by the two-loop recursion (Nocedal & Wright 2006, algorithm 7.4) over the variables
 * that are not held at a bound; steps by backtracking along the projected path with quadratic
 * interpolation until the Armijo condition holds (Bertsekas 1976). Where the value is not finite
 * the step was too long. Cost of a step: 4 m n, m = 8. */
#ifndef DROVER_LBFGS_H
#define DROVER_LBFGS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/mem.h"

struct lbfgs;

/* n variables within [lo[i], hi[i]]; starts at x, moved into the box. Copies. At most `evals`
 * values are asked for; it ends earlier when a step improves by less than `tol`. */
struct lbfgs *lbfgs_new(size_t n, const double *lo, const double *hi, const double *x, int evals,
                        double tol);
void lbfgs_free(struct lbfgs *l);
AUTO_DEFINE(lbfgs, struct lbfgs *, lbfgs_free)

bool lbfgs_wants(const struct lbfgs *l);
/* Where; borrowed until the next lbfgs_tell(). */
const double *lbfgs_x(const struct lbfgs *l);
/* The value there and its gradient (n). */
void lbfgs_tell(struct lbfgs *l, double f, const double *g);

/* The best value so far (INFINITY: none was finite) and where it is. */
double lbfgs_best(const struct lbfgs *l, const double **x);
/* Values that were told. */
int lbfgs_evals(const struct lbfgs *l);

#endif
