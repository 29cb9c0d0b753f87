#include "launcher/jobs/welch.h"

#include <math.h>

/* Returns the probability that the amount of Student's t is at most t. With t = sqrt(freedom)
 * tan(x) the density is proportional to cos(x)^(freedom - 1), which Simpson's rule integrates from
 * 0. */
static double probability_within(double t, double freedom)
{
    enum { PANELS = 512 };
    double end = atan(t / sqrt(freedom)), sum = 0;
    for (int i = 0; i <= PANELS; i++) {
        double weight = i == 0 || i == PANELS ? 1 : i % 2 ? 4 : 2;
        sum += weight * pow(cos(end * i / PANELS), freedom - 1);
    }
    double scale = exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / sqrt(M_PI);
    return 2 * scale * sum * end / PANELS / 3;
}

double welch_quantile(double freedom)
{
    double low = 1.95, high = 12.8; /* the normal distribution has 1.96, one degree 12.71 */
    while (high - low > 1e-10) {
        double middle = (low + high) / 2;
        *(probability_within(middle, freedom) < 0.95 ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

bool welch_interval(double *low, double *high, const struct welch_sample *a,
                    const struct welch_sample *b)
{
    if (a->n < 2 || b->n < 2)
        return false;
    double va = a->deviation * a->deviation / a->n, vb = b->deviation * b->deviation / b->n;
    double difference = b->mean - a->mean, half = 0;
    if (va + vb > 0) {
        double freedom = (va + vb) * (va + vb) / (va * va / (a->n - 1) + vb * vb / (b->n - 1));
        half = welch_quantile(freedom) * sqrt(va + vb);
    }
    *low = difference - half;
    *high = difference + half;
    return true;
}
