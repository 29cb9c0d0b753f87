/* bench_diff - statistical comparison of two measurements, row by row.
 *
 * Single iterations are compared by the rank-sum test of Mann and Whitney (1947), two-sided, by its
 * normal approximation with correction for ties and continuity; all rows together by Holm's
 * step-down (1979), so that among any number of equal rows a row is called different in 5 of 100
 * comparisons. The test does not know differences between runs that are constant within a run; the
 * tolerance allows for those. */
#ifndef DROVER_BENCH_DIFF_H
#define DROVER_BENCH_DIFF_H

#include <stdbool.h>
#include <stddef.h>

struct bench_diff_row {
    const double *before, *after; /* times of single iterations; borrowed */
    size_t before_n, after_n;     /* > 0 */
    /* Filled in by bench_diff_judge(): */
    double before_median, after_median;
    double change;      /* of the median; 0.1 is 10 % more time */
    double p;           /* adjusted by Holm's step-down */
    bool worse, better; /* by more than the tolerance, p < 0.05 */
};

/* Fills in the rows and returns the number of those that are worse. A `tolerance` of 0.05 is 5 %.
 */
size_t bench_diff_judge(struct bench_diff_row *rows, size_t n, double tolerance);

/* Returns the probability of rank sums at least as unequal as these if both samples come from one
 * distribution; 1 if all values are equal. n, m > 0. */
double bench_diff_rank_sum(const double *a, size_t n, const double *b, size_t m);

#endif
