/* gp - Gaussian-process regression: the posterior for given hyperparameters. Observations can be
 * added later.
 *
 *      y = f(x) + e,  f ~ GP(m, k),  e_i ~ N(0, noise + noise_i),  m ~ N(0, 1)
 *
 * k is the kernel of kernel.h; noise = GP_NOISE_FLOOR + exp(t). The mean m is set to its most
 * probable value. Outputs are expected to have a mean near 0 and a variance near 1. Symbols are
 * those of Rasmussen & Williams 2006 ("R&W"), chapter 2. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/model/kernel.h"

#define GP_NOISE_FLOOR 1e-8

/* Returns the number of hyperparameters: those of the kernel, then t. */
static inline size_t gp_params(const struct kernel_shape *h)
{
    return kernel_params(h) + 1;
}

struct gp { /* only gp.c changes the fields */
    const struct kernel_shape *shape;
    struct kernel kernel;
    double *inverse; /* storage for kernel.inverse */
    double noise;    /* the noise variance that all observations share */
    size_t n, cap;   /* number of observations */
    double *x;       /* the coordinates: columns of length cap */
    double *l;       /* lower triangle: the Cholesky factor of K + noise I; rows of length cap */
    double *alpha;   /* (K + noise I)^-1 (y - m) */
    double mean;     /* m */
};

/* Returns a process without observations; the caller frees it. `params` has gp_params() numbers and
 * is copied; `shape` is borrowed. */
struct gp *gp_new(const struct kernel_shape *shape, const double *params);
void gp_free(struct gp *g);
AUTO_DEFINE(gp, struct gp *, gp_free)

/* Adds x->n observations at the points x. `noise` has the extra variance of each; NULL: none.
 * gp_targets() sets their values. On failure no observation is added.
 *   -EDOM  the covariance is not positive definite, even with a jitter of 1e-3
 *   -ENOMEM  no memory for the factor
 *   -EINVAL  a number is not finite
 * Adding n observations to N costs (N + n)^3 / 3 - N^3 / 3 flops, since only the new rows of the
 * factor are computed. */
int gp_add(struct gp *g, const struct kernel_points *x, const double *noise, struct err *e);

/* Returns how well each value is predicted from all others: 1 - (sum of squared errors) / (the same
 * if each is predicted by the mean of the others). 1 is perfect; the mean has 0. `y`
 * has the values of gp_targets(). Returns 0 for fewer than two observations, and if all values are
 * equal. The hyperparameters stay as they are (R&W eq. 5.12). Costs N^3 / 3 flops. */
double gp_skill(const struct gp *g, const double *y);

/* Removes all observations after the first n. */
void gp_cut(struct gp *g, size_t n);

/* Sets the values of all observations; copies `y`. Costs N^2 flops. Call it before the
 * first prediction, and again when a value or the number of observations has changed. */
void gp_targets(struct gp *g, const double *y);

/* Computes the posterior mean and variance of f (not of y) at the n points of `at` (R&W eq. 2.25,
 * 2.26), and their derivatives by the coordinates: dmean and dvar have n rows of `cols` numbers;
 * both NULL: not needed. Variances are never below 1e-14. `var` NULL, without
 * derivatives: the mean alone. Costs n N^2 flops; the mean alone n N calls of the kernel. */
void gp_predict(const struct gp *g, const struct kernel_points *at, double *mean, double *var,
                double *dmean, double *dvar);
