/* gp_classifier - Gaussian-process classification: where trials succeed and where they fail.
 *
 *      P[success at x] = E[1 / (1 + exp(-f(x)))],  f ~ GP(m, k)
 *      k(x, x') = a + b (x - 1/2)(x' - 1/2) + c Matern-5/2(|x - x'| / l)
 *
 * Rasmussen & Williams 2006 ("R&W"), chapter 3, with Laplace's approximation. The hyperparameters
 * are fixed. Training mostly fails if a product of parameters is too large, which is a plane in
 * their logarithms. So the linear part extrapolates far beyond the few failures that there should
 * be, and the other part lets the border bend. */
#ifndef DROVER_GP_CLASSIFIER_H
#define DROVER_GP_CLASSIFIER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/mem.h"
#include "hpo/model/kernel.h"

struct gp_classifier;

/* Trains with n trials at x (`cols` columns, copied), each a success or a failure. NULL if the
 * arithmetic breaks down. Cost 10 n^3 flops. */
struct gp_classifier *gp_classifier_new(const struct kernel_points *x, size_t cols,
                                        const bool *success);
void gp_classifier_free(struct gp_classifier *c);
AUTO_DEFINE(gp_classifier, struct gp_classifier *, gp_classifier_free)

/* ln P[success] at a point (cols), and its derivatives by the columns (NULL: not needed). The
 * mean over the posterior is that of MacKay, "The evidence framework applied to classification
 * networks", Neural Computation 4 (1992), eq. 10. Cost n^2. */
double gp_classifier_log_success(struct gp_classifier *c, const double *at, double *slope);

#endif
