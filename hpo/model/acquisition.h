/* acquisition - the expected improvement of a point and the probability that it satisfies a
 * constraint, given a model's prediction. Lower values are better.
 *
 * The logarithm of expected improvement is used (Ament, Daulton, Eriksson, Balandat & Bakshy,
 * "Unexpected improvements to expected improvement for Bayesian optimization", NeurIPS 2023): its
 * slope is usable even if the improvement is too small for a double. */
#pragma once

/* Returns ln E[max(best - f, 0)] for f ~ N(mean, sd^2), sd > 0, and sets `slope` to its derivatives
 * by mean and sd. All are finite if the arguments are. (Jones, Schonlau & Welch 1998, eq. 15: sd
 * h(z) with h(z) = phi(z) + z Phi(z), z = (best - mean) / sd.) */
double acquisition_log_ei(double best, double mean, double sd, double slope[2]);

/* Returns ln P[low <= f <= high] for f ~ N(mean, sd^2), sd > 0, low <= high, at least one of them
 * finite, and sets `slope` to its derivatives by mean and sd. All are finite if the arguments are,
 * and if |mean - bound| / sd is below 1e100; low = high gives a limit that is very small. */
double acquisition_log_within(double low, double high, double mean, double sd, double slope[2]);
