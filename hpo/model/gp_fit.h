/* gp_fit - the most probable hyperparameters of a Gaussian process.
 *
 * The density is the evidence (marginal likelihood; R&W eq. 2.30) times the prior:
 *
 *     length of a column   log-normal, mu = sqrt 2 + ln(groups) / 2, sigma = sqrt 3
 *     length of a group    the same for one dimension
 *     s, s2                log-normal, mu = 0, sigma = 1
 *     t                    N(-8, 2^2); the noise variance is GP_NOISE_FLOOR + exp(t)
 *     m                    N(0, 1), at its mode
 *
 * The prior of the lengths is that of Hvarfner, Hellsten & Nardi, "Vanilla Bayesian optimization
 * performs great in high dimensions", ICML 2024. The density is over the length, not over its
 * logarithm, whose mode is at mu - 3. In a smooth space all parameters are of one kind, and their
 * lengths are expected to be similar, the more so the more there are: the logarithms, with the same
 * mode, have variance 3 (2 / groups)^2 each (3 with one group) and .3 in common. */
#ifndef DROVER_GP_FIT_H
#define DROVER_GP_FIT_H

#include "common/mem.h"
#include "hpo/model/gp.h"

struct gp_data { /* borrowed */
    const struct kernel_shape *shape;
    struct kernel_points x;
    const double *y;     /* x.n values, with a mean near 0 and a variance near 1 */
    const double *noise; /* x.n, extra variance of each; NULL: none */
};

struct gp_fit; /* work space for two n x n matrices */
struct gp_fit *gp_fit_new(const struct gp_data *data);
void gp_fit_free(struct gp_fit *f);
AUTO_DEFINE(gp_fit, struct gp_fit *, gp_fit_free)

/* The prior's mode: gp_params() numbers. */
void gp_fit_prior(const struct kernel_shape *shape, double *params);

/* ln(evidence x prior), up to a constant, and its gradient (gp_params(); NULL: not needed).
 * -INFINITY if the covariance is not positive definite. Cost n^3 flops and n^2 groups exp(). */
double gp_fit_density(struct gp_fit *f, const double *params, double *gradient);

/* Climbs from `params` to a nearby maximum of the density, with at most `evals` evaluations.
 * Returns the density there. If it has no value, returns -INFINITY and leaves `params`
 * unchanged. */
double gp_fit_climb(struct gp_fit *f, double *params, int evals);

#endif
