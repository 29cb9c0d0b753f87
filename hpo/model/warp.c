#include "hpo/model/warp.h"

#include <float.h>
#include <gsl/gsl_sort.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

static double squashed(const struct warp *w, double y)
{
    y /= w->unit;
    if (w->kind == WARP_NONE || y <= w->median)
        return y;
    return w->median + w->spread * log1p((y - w->median) / w->spread);
}

/* The scale that brings n squashed values to variance 1. */
static void standardise(struct warp *w, const double *y, size_t n)
{
    double mean = 0, square = 0;
    for (size_t i = 0; i < n; i++)
        mean += squashed(w, y[i]) / (double)n;
    for (size_t i = 0; i < n; i++) {
        double d = squashed(w, y[i]) - mean;
        square += d * d / (double)n;
    }
    w->shift = mean;
    w->scale = square > 0 && isfinite(square) ? sqrt(square) : 1;
}

void warp_fit(struct warp *w, enum warp_kind kind, const double *y, size_t n)
{
    AUTO(free) double *sorted = xcalloc(n, sizeof *sorted);
    memcpy(sorted, y, n * sizeof *y);
    gsl_sort(sorted, 1, n);
    double unit = fmax(fabs(sorted[0]), fabs(sorted[n - 1]));
    *w = (struct warp){.kind = kind, .unit = unit > 0 ? unit : 1};
    w->median = sorted[(n - 1) / 2] / w->unit / 2 + sorted[n / 2] / w->unit / 2;
    w->spread = w->median - sorted[0] / w->unit;
    if (!(w->spread > DBL_MIN)) /* half of them are equal: nothing to measure by */
        w->kind = WARP_NONE;
    standardise(w, y, n);
}

double warp_value(const struct warp *w, double y)
{
    return (squashed(w, y) - w->shift) / w->scale;
}

double warp_slope(const struct warp *w, double y)
{
    double above = y / w->unit - w->median;
    double squash = w->kind == WARP_NONE || above <= 0 ? 1 : w->spread / (w->spread + above);
    return squash / w->scale / w->unit;
}
