#include "hpo/model/acq.h"

#include <gsl/gsl_sf_erf.h>
#include <math.h>

static const double log_sqrt_2pi = 0.91893853320467274178;

/* ln h(z), and the ratios Phi / h and phi / h: its derivative, and what that by the deviation
 * needs.
 */
static double log_h(double z, double *mass, double *density)
{
    double log_phi = -z * z / 2 - log_sqrt_2pi;
    if (z > -1) {
        double phi = exp(log_phi), h = phi + z * gsl_sf_erf_Q(-z);
        *mass = gsl_sf_erf_Q(-z) / h;
        *density = phi / h;
        return log(h);
    }
    /* h = phi (1 - |z| R) with Mills' ratio R = Q(|z|) / phi; far out by its asymptotic series,
     * since the difference cancels (Abramowitz & Stegun 26.2.12). */
    double w = 1 / (z * z);
    double ratio = 1 / gsl_sf_hazard(-z);
    double rest = z > -40 ? 1 + z * ratio : w * (1 - 3 * w * (1 - 5 * w * (1 - 7 * w)));
    *mass = ratio / rest;
    *density = 1 / rest;
    return log_phi + log(rest);
}

double acq_log_ei(double best, double mean, double var, double slope[2])
{
    double s = sqrt(var), mass = 0, density = 0;
    double value = log_h((best - mean) / s, &mass, &density) + log(s);
    slope[0] = -mass / s;
    slope[1] = density / (2 * var);
    return value;
}
