/* bench_diff - statistical comparison of two measurements, row by row.
 *
 * The single iterations of a row are compared by the two-sided rank-sum test of Mann and Whitney
 * (1947), in its normal approximation with corrections for ties and continuity. Holm's step-down
 * (1979) corrects for the number of rows: if no row really differs, at most 5 of 100 comparisons
 * report a difference. The test cannot detect effects that are constant within a run but differ
 * between runs; the tolerance allows for these. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct bench_diff_row {
    const double *before, *after; /* times of single iterations; borrowed */
    size_t before_n, after_n;     /* > 0 */
    size_t id;                    /* for the caller */
    /* Filled in by bench_diff_judge(): */
    double before_median, after_median;
    double change;      /* change of the median; 0.1 is 10 % more time */
    double p;           /* adjusted by Holm's step-down */
    bool worse, better; /* the change exceeds the tolerance, and p < 0.05 */
};

/* Fills in the rows. Returns the number of rows that are worse. A `tolerance` of 0.05 is 5 %. */
size_t bench_diff_judge(struct bench_diff_row *rows, size_t n, double tolerance);

/* Returns true if the test can detect a difference in a row at all: with too few iterations, even
 * samples that do not overlap have a p of 0.05 or more after the adjustment. */
bool bench_diff_can_judge(const struct bench_diff_row *rows, size_t n);

/* Returns the probability of rank sums that are at least as unequal as these, if both samples come
 * from one distribution. Returns 1 if all values are equal. n and m must be > 0. */
double bench_diff_rank_sum(const double *a, size_t n, const double *b, size_t m);
