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
 * logarithm: its mode is at ln(length) = mu - 3. In a smooth space all parameters are of one kind,
 * so their lengths are expected to be similar, and more similar if there are more parameters. There
 * the log-lengths have the same mode; each has its own variance 3 (2 / groups)^2 (3 with one
 * group), and all share a variance of 0.3. */
#pragma once

#include "common/mem.h"
#include "hpo/model/gp.h"

struct gp_data { /* borrowed */
    const struct kernel_shape *shape;
    struct kernel_points x;
    const double *y;     /* x.n values, with a mean near 0 and a variance near 1 */
    const double *noise; /* x.n numbers: the extra variance of each value; NULL: none */
};

struct gp_fit; /* work space, mainly one n x n matrix */
struct gp_fit *gp_fit_new(const struct gp_data *data);
void gp_fit_free(struct gp_fit *f);
AUTO_DEFINE(gp_fit, struct gp_fit *, gp_fit_free)

/* Sets `params` (gp_params() numbers) to the mode of the prior. */
void gp_fit_prior(const struct kernel_shape *shape, double *params);

/* Returns ln(evidence x prior), up to a constant, or -INFINITY if the covariance is not positive
 * definite. Sets `gradient` (gp_params() numbers) to the derivatives by `params`; NULL: not needed.
 * Costs n^3 flops and n^2 groups calls of exp(). */
double gp_fit_density(struct gp_fit *f, const double *params, double *gradient);

/* Climbs from `params` to a nearby maximum of the density, with at most `evals` evaluations. Sets
 * `params` to this maximum and returns the log density there. If the density at `params` is not
 * finite, returns -INFINITY and leaves `params` unchanged. */
double gp_fit_climb(struct gp_fit *f, double *params, int evals);
