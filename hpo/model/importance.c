#include "hpo/model/importance.h"

#include <gsl/gsl_sort.h>
#include <math.h>

#include "common/mem.h"

enum { TOP_MIN = 5 };

void importance_top(const double *y, size_t n, bool *top)
{
    size_t want = (n + 9) / 10, half = n / 2;
    if (want < TOP_MIN)
        want = half < TOP_MIN ? half : TOP_MIN;
    AUTO(free) double *sorted = xcalloc(n, sizeof *sorted);
    memcpy(sorted, y, n * sizeof *y);
    gsl_sort(sorted, 1, n);
    for (size_t i = 0; i < n; i++)
        top[i] = want > 0 && y[i] <= sorted[want - 1];
}

static size_t cell_of(double u, size_t cells)
{
    double at = floor(u * (double)cells);
    return at < 0 ? 0 : at < (double)cells ? (size_t)at : cells - 1;
}

/* ---- densities ------------------------------------------------------------------------------ */

/* Returns the width of the kernels, in cells, by Scott's rule (D. Scott, "Multivariate density
 * estimation", 1992). The rule uses the standard deviation or its estimate from the quartiles,
 * whichever is smaller. The minimum is the width at which 90 % of a kernel's weight is in one cell.
 */
static double kernel_width(const size_t *count, size_t n, size_t cells)
{
    double mean = 0, square = 0, quarter = -1, three_quarters = -1;
    size_t until = 0;
    for (size_t c = 0; c < cells; c++) {
        if (count[c] == 0)
            continue;
        until += count[c];
        mean += (double)c * (double)count[c] / (double)n;
        if (quarter < 0 && until >= n / 4)
            quarter = (double)c;
        if (three_quarters < 0 && until > 3 * n / 4)
            three_quarters = (double)c;
    }
    for (size_t c = 0; c < cells; c++)
        square += ((double)c - mean) * ((double)c - mean) * (double)count[c];
    double deviation = sqrt(square / (n > 2 ? (double)n - 1 : 1));
    double spread = fmin(deviation, (three_quarters - quarter) / 1.34);
    return fmax(1.059 * spread * pow((double)n, -0.2), 0.5 / 1.64);
}

static double below(double x, double width)
{
    return erfc(-x / width * M_SQRT1_2) / 2;
}

/* Adds a kernel with the given weight and centre `at` to p. The kernel is cut off at the ends of
 * the axis and keeps its whole weight. */
static void add_kernel(double weight, double at, double width, size_t cells, double *p)
{
    double first = below(-0.5 - at, width), all = below((double)cells - 0.5 - at, width) - first;
    for (size_t c = 0; c < cells; c++) {
        double to = below((double)c + 0.5 - at, width);
        p[c] += weight * (to - first) / all;
        first = to;
    }
}

/* Computes p[0 … cells - 1], the density of n > 0 trials. `count` has the number of trials per
 * cell. The sum of p is 1. */
static void density(const size_t *count, size_t n, size_t cells, bool ordered, double *p)
{
    double each = 1 / ((double)n + 1), width = ordered ? kernel_width(count, n, cells) : 0;
    for (size_t c = 0; c < cells; c++)
        p[c] = ordered ? 0 : each * ((double)count[c] + 1 / (double)cells);
    for (size_t c = 0; c < cells && ordered; c++)
        if (count[c] > 0)
            add_kernel(each * (double)count[c], (double)c, width, cells, p);
    if (ordered)
        add_kernel(each, ((double)cells - 1) / 2, (double)cells, cells, p);
}

double importance_of(const double *u, const bool *top, size_t n, size_t cells, bool ordered)
{
    AUTO(free) size_t *in_all = xcalloc(cells, sizeof *in_all);
    AUTO(free) size_t *in_top = xcalloc(cells, sizeof *in_top);
    size_t tops = 0, have = 0, tops_have = 0;
    for (size_t i = 0; i < n; i++) {
        tops += top[i];
        if (isnan(u[i]))
            continue;
        size_t c = cell_of(u[i], cells);
        in_all[c]++;
        in_top[c] += top[i];
        have++;
        tops_have += top[i];
    }
    if (have < 2 || tops_have == 0)
        return 0;
    AUTO(free) double *p = xcalloc(cells, sizeof *p), *q = xcalloc(cells, sizeof *q);
    density(in_top, tops_have, cells, ordered, p);
    density(in_all, have, cells, ordered, q);
    double divergence = 0;
    for (size_t c = 0; c < cells; c++)
        divergence += (p[c] - q[c]) * (p[c] - q[c]) / q[c];
    double share = (double)tops_have / (double)tops;
    return share * share * (double)n / (double)have * divergence;
}
