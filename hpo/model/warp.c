#include "hpo/model/warp.h"

#include <float.h>
#include <gsl/gsl_sort.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* 1: what is above the knee is bent; -1: what is below; 0: nothing. */
static double side(const struct warp *w)
{
    static const double sides[WARP_KINDS] = {[WARP_SQUASH] = 1, [WARP_LIFT] = -1, [WARP_LOG] = 1};
    return sides[w->kind];
}

static double bent(const struct warp *w, double y)
{
    double by = side(w), beyond = by * (y / w->unit - w->knee);
    if (!(beyond > 0))
        return y / w->unit;
    return w->knee + by * w->spread * log1p(beyond / w->spread);
}

/* The scale that brings n bent values to variance 1. */
static void standardise(struct warp *w, const double *y, size_t n)
{
    double mean = 0, square = 0;
    for (size_t i = 0; i < n; i++)
        mean += bent(w, y[i]) / (double)n;
    for (size_t i = 0; i < n; i++) {
        double d = bent(w, y[i]) - mean;
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
    double least = sorted[0] / w->unit, quartile = sorted[(n - 1) / 4] / w->unit;
    double middle = sorted[(n - 1) / 2] / w->unit; /* of two the lower */
    w->knee = kind == WARP_LOG ? least : middle / 2 + sorted[n / 2] / w->unit / 2;
    w->spread = kind == WARP_LOG    ? quartile - least
                : kind == WARP_LIFT ? middle - quartile
                                    : w->knee - least;
    if (!(w->spread > DBL_MIN)) /* too many are equal: nothing to measure by */
        w->kind = WARP_NONE;
    standardise(w, y, n);
}

double warp_value(const struct warp *w, double y)
{
    return (bent(w, y) - w->shift) / w->scale;
}

double warp_slope(const struct warp *w, double y)
{
    double beyond = side(w) * (y / w->unit - w->knee);
    double bend = beyond > 0 ? w->spread / (w->spread + beyond) : 1;
    return bend / w->scale / w->unit;
}
