#include "collectives/bench/analysis/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

static double mean(const double *v, size_t n)
{
    double sum = 0, lost = 0;
    for (size_t i = 0; i < n; i++) {
        double t = sum + v[i];
        lost += fabs(sum) >= fabs(v[i]) ? sum - t + v[i] : v[i] - t + sum;
        sum = t;
    }
    return (sum + lost) / (double)n;
}

double stats_pick(const double *values, size_t n, enum stats_pick pick)
{
    if (pick == STATS_MEAN)
        return mean(values, n);
    double best = values[0];
    for (size_t i = 1; i < n && pick != STATS_FIRST; i++)
        if (pick == STATS_MIN ? values[i] < best : values[i] > best)
            best = values[i];
    return best;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double *sorted(const double *values, size_t n)
{
    double *v = xcalloc(n, sizeof *v);
    memcpy(v, values, n * sizeof *v);
    qsort(v, n, sizeof *v, by_value);
    return v;
}

static double middle(const double *v, size_t n)
{
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* Returns the number of values at each end that are outside the interval. This is the largest k for
 * which at most k values are below the median with a probability of at most 2.5 %. */
static size_t outside(size_t n)
{
    double below = 0;
    for (size_t k = 0; k < n / 2; k++) {
        double log_ways =
            lgamma((double)n + 1) - lgamma((double)k + 1) - lgamma((double)(n - k) + 1);
        below += exp(log_ways - (double)n * log(2));
        if (below > 0.025)
            return k ? k - 1 : 0;
    }
    return (n - 1) / 2;
}

/* Returns a percentile by the nearest rank: the smallest value that `percent` % of the values do
 * not exceed. */
static double percentile(const double *v, size_t n, size_t percent)
{
    return v[n / 100 * percent + (n % 100 * percent + 99) / 100 - 1];
}

struct stats stats_of(const double *values, size_t n)
{
    AUTO(free) double *v = sorted(values, n);
    size_t out = outside(n);
    double center = mean(values, n), squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - center) * (values[i] - center);
    return (struct stats){
        .n = n,
        .min = v[0],
        .max = v[n - 1],
        .mean = center,
        .deviation = sqrt(squares / (double)n),
        .median = middle(v, n),
        .p95 = percentile(v, n, 95),
        .p99 = percentile(v, n, 99),
        .low = v[out],
        .high = v[n - 1 - out],
    };
}

double stats_median(const double *values, size_t n)
{
    AUTO(free) double *v = sorted(values, n);
    return middle(v, n);
}

double stats_spread(const double *values, size_t n, double center)
{
    AUTO(free) double *distances = xcalloc(n, sizeof *distances);
    for (size_t i = 0; i < n; i++)
        distances[i] = fabs(values[i] - center);
    return 1.4826 * stats_median(distances, n);
}
