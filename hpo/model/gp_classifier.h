/* gp_classifier - Gaussian-process classification: where trials succeed and where they fail.
 *
 *      P[success at x] = E[1 / (1 + exp(-f(x)))],  f ~ GP(m, k)
 *      k(x, x') = a + b (x - 1/2)(x' - 1/2) + c Matern-5/2(|x - x'| / l)
 *
 * Rasmussen & Williams 2006 ("R&W"), chapter 3, with Laplace's approximation. The hyperparameters
 * are fixed. Training mostly fails if a product of parameters is too large, which is a plane in
 * their logarithms. The linear part of the kernel (b) finds such a plane from few failures and
 * extrapolates it far. The other part (c) lets the border between success and failure bend. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/mem.h"
#include "hpo/model/kernel.h"

struct gp_classifier;

/* Trains with the n trials at x, each a success or a failure. Returns a classifier, which the
 * caller frees, or NULL if the arithmetic breaks down. x has `cols` columns and is copied. Costs 10
 * n^3 flops. */
struct gp_classifier *gp_classifier_new(const struct kernel_points *x, size_t cols,
                                        const bool *success);
void gp_classifier_free(struct gp_classifier *c);
AUTO_DEFINE(gp_classifier, struct gp_classifier *, gp_classifier_free)

/* Returns ln P[success] at the point `at` (cols numbers). Sets `slope` to the derivatives by the
 * columns; NULL: not needed. The expectation over f is approximated as in MacKay, "The evidence
 * framework applied to classification networks", Neural Computation 4 (1992), eq. 10. Costs n^2
 * flops. */
double gp_classifier_log_success(struct gp_classifier *c, const double *at, double *slope);
