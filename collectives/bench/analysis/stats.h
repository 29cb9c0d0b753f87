/* stats - summaries of measured times: over ranks, and over iterations. */
#pragma once

#include <stddef.h>

/* nccl-tests' numbers for -a. */
enum stats_pick { STATS_FIRST, STATS_MEAN, STATS_MIN, STATS_MAX, STATS_PICKS };

/* Returns the first value, the mean, the least or the greatest of n > 0 values. The mean is that of
 * a compensated sum (Neumaier 1974): its error does not grow with n. */
double stats_pick(const double *values, size_t n, enum stats_pick pick);

/* Summary of n > 0 values, in their unit. p99 is the smallest value that 99 % of the values do not
 * exceed (nearest rank); p95 is the same for 95 %. deviation is the standard deviation, with the
 * divisor n and not n - 1.
 * low … high contains the median of the values' distribution with a probability of at least 95 %,
 * for any distribution: order statistics, by the binomial law of the number of values below the
 * median (David and Nagaraja, Order Statistics, 2003, 7.1). With fewer than 6 values the interval
 * spans all of them, and the probability is 1 - 2^(1-n). The interval is too narrow if the values
 * depend on each other. */
struct stats {
    size_t n;
    double min, max, mean, deviation, median, p95, p99, low, high;
};
struct stats stats_of(const double *values, size_t n);

/* Returns the middle value, or the mean of the two middle ones; n > 0. */
double stats_median(const double *values, size_t n);

/* Returns 1.4826 times the median distance from `center`: the standard deviation of a normal
 * distribution, even if up to half of the values are outliers. n > 0. */
double stats_spread(const double *values, size_t n, double center);
