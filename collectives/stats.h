/* stats - one figure from many: what the ranks measured. */
#ifndef DROVER_STATS_H
#define DROVER_STATS_H

#include <stddef.h>

/* nccl-tests' numbers for -a. */
enum stats_pick { STATS_FIRST, STATS_MEAN, STATS_MIN, STATS_MAX, STATS_PICKS };

/* n > 0. The mean is a compensated sum's (Neumaier 1974): its error does not grow with n. */
double stats_pick(const double *values, size_t n, enum stats_pick pick);

#endif
