#include "collectives/stats.h"

#include <math.h>

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
