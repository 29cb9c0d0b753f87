#include "hpo/model/acquisition.h"

#include <math.h>

/* Number of terms of the continued fraction. With this many, all digits are exact if |z| >= 6. */
enum { FRACTION = 20 };

/* For z <= -6 the sum h = phi + z Phi would cancel. There Phi / phi is Mills' ratio 1 / (x + k)
 * with x = -z, and k is a continued fraction (Abramowitz & Stegun 26.2.14). So h = phi k / (x + k),
 * without cancellation. In both cases d ln h / dz = Phi / h. */
double acquisition_log_ei(double best, double mean, double sd, double slope[2])
{
    static const double log_sqrt_2pi = 0.91893853320467274178;
    double z = (best - mean) / sd, log_phi = -z * z / 2 - log_sqrt_2pi, log_h = 0, by_z = 0;
    if (z > -6) {
        double mass = erfc(-z * M_SQRT1_2) / 2, h = exp(log_phi) + z * mass;
        log_h = log(h);
        by_z = mass / h;
    } else {
        double k = 0;
        for (int i = FRACTION; i > 0; i--)
            k = i / (k - z);
        log_h = log_phi + log(k / (k - z));
        by_z = 1 / k;
    }
    slope[0] = -by_z / sd;
    slope[1] = (1 - z * by_z) / sd;
    return log_h + log(sd);
}

/* Returns ln Phi(z), and sets `*slope` to its derivative, phi / Phi. */
static double log_phi_below(double z, double *slope)
{
    static const double log_sqrt_2pi = 0.91893853320467274178;
    double log_density = -z * z / 2 - log_sqrt_2pi, value = 0;
    if (z > -6) {
        value = log(erfc(-z * M_SQRT1_2) / 2);
    } else { /* Mills' ratio, as above */
        double k = 0;
        for (int i = FRACTION; i > 0; i--)
            k = i / (k - z);
        value = log_density - log(k - z);
    }
    *slope = exp(log_density - value);
    return value;
}

/* By symmetry the tail with more of the two bounds' mass is taken: with a = (low - mean) / sd and b
 * = (high - mean) / sd, a + b <= 0 after a change of sign, ln (Phi(b) - Phi(a)) = ln Phi(b) + ln (1
 * - Phi(a) / Phi(b)). */
double acquisition_log_within(double low, double high, double mean, double sd, double slope[2])
{
    double a = (low - mean) / sd, b = (high - mean) / sd, by_a = 0, by_b = 0, sign = 1;
    if (a + b > 0) {
        double swap = a;
        a = -b;
        b = -swap;
        sign = -1;
    }
    double value = log_phi_below(b, &by_b);
    if (isfinite(a)) {
        /* 1 - exp(-gap), which is above 0 even if both bounds are equal */
        double gap = fmax(value - log_phi_below(a, &by_a), 1e-12), rest = -expm1(-gap);
        by_b /= rest;
        by_a *= exp(-gap) / rest;
        value += log(rest);
    } else {
        a = 0; /* its slope is 0 */
    }
    slope[0] = -sign * (by_b - by_a) / sd;
    slope[1] = -(by_b * b - by_a * a) / sd;
    return value;
}
