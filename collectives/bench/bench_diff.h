/* diff - two benches compared size by size: is the second one slower, and is that more than chance?
 *
 * Single iterations are compared by the rank-sum test of Mann and Whitney (1947), two-sided, by its
 * normal approximation with correction for ties and continuity; all rows together by Holm's
 * step-down (1979), so that of any number of equal rows one is called different in 5 of 100
 * comparisons. What differs from run to run, but not within one, is no chance to this test: the
 * tolerance is for that. */
#ifndef DROVER_BENCH_DIFF_H
#define DROVER_BENCH_DIFF_H

#include <stdbool.h>
#include <stddef.h>

struct bench_diff_row {
    const double *before, *after; /* times of single iterations; borrowed */
    size_t before_n, after_n;     /* > 0 */
    /* Filled in by bench_diff_judge(): */
    double before_median, after_median;
    double change;      /* of the median: 0.1 is 10 % more time */
    double p;           /* by Holm's step-down */
    bool worse, better; /* by more than the tolerance, p < 0.05 */
};

/* Returns how many rows are worse. `tolerance` is a share: 0.05. */
size_t bench_diff_judge(struct bench_diff_row *rows, size_t n, double tolerance);

/* The probability of ranks at least as unequal as these, where both come from one distribution. 1
 * where all values are alike. n, m > 0. */
double bench_diff_rank_sum(const double *a, size_t n, const double *b, size_t m);

#endif
