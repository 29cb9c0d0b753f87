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
