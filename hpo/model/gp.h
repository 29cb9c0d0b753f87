/* gp - Gaussian-process regression: the posterior for given hyperparameters, with observations
 * added one by one.
 *
 *      y = f(x) + e,  f ~ GP(m, k),  e_i ~ N(0, noise + noise_i),  m ~ N(0, 1)
 *
 * k is the kernel of kernel.h; noise = NOISE_FLOOR + exp(t). The mean m has its most probable
 * value. Outputs are expected to have a mean near 0 and a variance near 1. Symbols are those of
 * Rasmussen & Williams 2006 ("R&W"), chapter 2. */
#ifndef DROVER_GP_H
#define DROVER_GP_H

#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/model/kernel.h"

#define GP_NOISE_FLOOR 1e-8

/* Number of hyperparameters: those of the kernel, then t. */
static inline size_t gp_params(const struct kernel_shape *h)
{
    return kernel_params(h) + 1;
}

struct gp;

/* Creates a process without observations. `params` (gp_params()) is copied, `shape` borrowed. */
struct gp *gp_new(const struct kernel_shape *shape, const double *params);
void gp_free(struct gp *g);
AUTO_DEFINE(gp, struct gp *, gp_free)

/* Adds n observations: columns of x as in kernel.h; `noise`: the extra variance of each, NULL:
 * none. gp_targets() sets their values. On failure nothing is added.
 *   -EDOM  the covariance is not positive definite, even with a jitter of 1e-3
 *   -ENOMEM  no memory for the factor
 *   -EINVAL  a number is not finite
 * Adds rows to the factor: (N + n)^3 / 3 - N^3 / 3 flops. */
int gp_add(struct gp *g, const struct kernel_points *x, const double *noise, struct err *e);

/* Removes all observations after the first n. */
void gp_cut(struct gp *g, size_t n);
size_t gp_count(const struct gp *g);

/* Sets the values of all observations (gp_count()); copied. Costs N^2 flops. Call it before the
 * first prediction, and after a value or the number of observations has changed. */
void gp_targets(struct gp *g, const double *y);

/* Posterior mean and variance (of f, not of y) at the points of `at` (n); R&W eq. 2.25, 2.26.
 * Variances are never below 1e-14. Cost n N^2. */
void gp_predict(const struct gp *g, const struct kernel_points *at, double *mean, double *var);

/* The same, with derivatives by the coordinates: dmean and dvar are n rows of `cols`. */
void gp_predict_slopes(const struct gp *g, const struct kernel_points *at, double *mean,
                       double *var, double *dmean, double *dvar);

/* The noise variance of all observations. */
double gp_noise(const struct gp *g);

#endif
