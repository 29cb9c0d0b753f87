/* gp_fit - the most probable hyperparameters of a Gaussian process.
 *
 * The density is the evidence (marginal likelihood; R&W eq. 2.30) times the prior:
 *   length of a column   log-normal, mu = sqrt 2 + ln(groups) / 2, sigma = sqrt 3 (Hvarfner,
 * Hellsten & Nardi, "Vanilla Bayesian optimization performs great in high dimensions", ICML 2024);
 * of a group: the same for one dimension. The density is over the length, not over its logarithm,
 * of which the mode is at mu - 3. Where the space is smooth, parameters are of one kind and their
 * lengths are expected to be alike, the more so the more there are: the logarithms, about the same
 * mode, have variance 3 (2 / groups)^2 each (3 with one) and .3 in common.
 *   s, s2                log-normal, mu = 0, sigma = 1
 *   t                    N(-8, 2^2), the noise variance being GP_NOISE_FLOOR + exp(t)
 *   m                    N(0, 1), at its mode */
#ifndef DROVER_GP_FIT_H
#define DROVER_GP_FIT_H

#include "common/mem.h"
#include "hpo/model/gp.h"

struct gp_data { /* borrowed */
    const struct kernel_shape *shape;
    struct kernel_points x;
    const double *y;     /* x.n, about mean 0 and variance 1 */
    const double *noise; /* x.n, extra variance of each; NULL: none */
};

struct gp_fit; /* room for the arithmetic: two n x n matrices */
struct gp_fit *gp_fit_new(const struct gp_data *data);
void gp_fit_free(struct gp_fit *f);
AUTO_DEFINE(gp_fit, struct gp_fit *, gp_fit_free)

/* The prior's mode: gp_params() numbers. */
void gp_fit_prior(const struct kernel_shape *shape, double *params);

/* ln(evidence x prior), up to a constant, and its gradient (gp_params(); NULL: not wanted).
 * -INFINITY where the covariance is not positive definite. Cost n^3 flops and n^2 groups exp(). */
double gp_fit_density(struct gp_fit *f, const double *params, double *gradient);

/* Climbs from `params` to a maximum of the density nearby, by at most `evals` evaluations. Returns
 * the density there; -INFINITY, and `params` as they were, where it has no value. */
double gp_fit_climb(struct gp_fit *f, double *params, int evals);

#endif
