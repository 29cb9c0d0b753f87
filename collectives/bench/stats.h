/* stats - one figure from many: what the ranks measured, and what one rank measured many times. */
#ifndef DROVER_STATS_H
#define DROVER_STATS_H

#include <stddef.h>

/* nccl-tests' numbers for -a. */
enum stats_pick { STATS_FIRST, STATS_MEAN, STATS_MIN, STATS_MAX, STATS_PICKS };

/* n > 0. The mean is a compensated sum's (Neumaier 1974): its error does not grow with n. */
double stats_pick(const double *values, size_t n, enum stats_pick pick);

/* Of n > 0 values, in their unit. p99 is the smallest value that 99 % are not above (nearest rank),
 * p95 the same of 95 %.
 * low … high holds the median of what they are drawn from with a probability of at least 95 %,
 * whatever the distribution: order statistics, by the binomial law of how many lie below it (David
 * and Nagaraja, Order Statistics, 2003, 7.1). With less than 6 values it is all of them, and holds
 * it with 1 - 2^(1-n). Values that depend on each other make it too narrow. deviation is that of
 * these values (divided by n). */
struct stats {
    size_t n;
    double min, max, mean, deviation, median, p95, p99, low, high;
};
struct stats stats_of(const double *values, size_t n);

/* The middle value, or the mean of the two; n > 0. */
double stats_median(const double *values, size_t n);

/* 1.4826 times the median distance from `center`: a normal distribution's standard deviation,
 * which up to half of the values may try to spoil. n > 0. */
double stats_spread(const double *values, size_t n, double center);

#endif
