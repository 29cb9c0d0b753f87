#include "collectives/bench/analysis/bench_diff.h"

#include <math.h>
#include <stdlib.h>

#include "collectives/bench/analysis/stats.h"
#include "common/mem.h"

static const double SIGNIFICANT = 0.05; /* p below it */

struct value {
    double x;
    bool first;
};

static int by_value(const void *a, const void *b)
{
    double x = ((const struct value *)a)->x, y = ((const struct value *)b)->x;
    return (x > y) - (x < y);
}

double bench_diff_rank_sum(const double *a, size_t n, const double *b, size_t m)
{
    size_t all = n + m;
    double sum = 0, ties = 0, total = (double)all, na = (double)n, nb = (double)m;
    AUTO(free) struct value *v = xcalloc(all, sizeof *v);
    for (size_t i = 0; i < all; i++)
        v[i] = (struct value){i < n ? a[i] : b[i - n], i < n};
    qsort(v, all, sizeof *v, by_value);
    for (size_t i = 0, end; i < all; i = end) { /* equal values get the mean of their ranks */
        for (end = i; end < all && v[end].x == v[i].x; end++)
            ;
        double tied = (double)(end - i), rank = (double)(i + end + 1) / 2;
        ties += tied * tied * tied - tied;
        for (size_t k = i; k < end; k++)
            sum += v[k].first ? rank : 0;
    }
    double u = sum - na * (na + 1) / 2;
    double variance = na * nb / 12 * (total + 1 - ties / (total * (total - 1)));
    if (variance <= 0)
        return 1;
    double z = fmax(0, fabs(u - na * nb / 2) - 0.5) / sqrt(variance);
    return erfc(z / sqrt(2));
}

/* Returns the row with the smallest p among those that are not adjusted yet. */
static struct bench_diff_row *next(struct bench_diff_row *rows, const bool *done, size_t n)
{
    struct bench_diff_row *least = NULL;
    for (size_t i = 0; i < n; i++)
        if (!done[i] && (!least || rows[i].p < least->p))
            least = &rows[i];
    return least;
}

/* Adjusts the p of all rows by Holm's step-down: the i-th smallest p (from 0) is multiplied by n -
 * i, and is at least the previous result. */
static void step_down(struct bench_diff_row *rows, size_t n)
{
    AUTO(free) bool *done = xcalloc(n + 1, sizeof *done);
    double before = 0;
    for (size_t i = 0; i < n; i++) {
        struct bench_diff_row *r = next(rows, done, n);
        before = fmax(before, fmin(1, r->p * (double)(n - i)));
        r->p = before;
        done[r - rows] = true;
    }
}

/* The p of samples that do not overlap: their U is 0. */
static double least_p(double n, double m)
{
    return erfc(fmax(0, n * m / 2 - 0.5) / sqrt(n * m / 12 * (n + m + 1)) / sqrt(2));
}

bool bench_diff_can_judge(const struct bench_diff_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (least_p((double)rows[i].before_n, (double)rows[i].after_n) * (double)n < SIGNIFICANT)
            return true;
    return false;
}

size_t bench_diff_judge(struct bench_diff_row *rows, size_t n, double tolerance)
{
    size_t worse = 0;
    for (size_t i = 0; i < n; i++) {
        struct bench_diff_row *r = &rows[i];
        r->before_median = stats_median(r->before, r->before_n);
        r->after_median = stats_median(r->after, r->after_n);
        r->change = r->before_median > 0 ? r->after_median / r->before_median - 1 : 0;
        r->p = bench_diff_rank_sum(r->before, r->before_n, r->after, r->after_n);
    }
    step_down(rows, n);
    for (size_t i = 0; i < n; i++) {
        rows[i].worse = rows[i].p < SIGNIFICANT && rows[i].change > tolerance;
        rows[i].better = rows[i].p < SIGNIFICANT && rows[i].change < -tolerance;
        worse += rows[i].worse;
    }
    return worse;
}
