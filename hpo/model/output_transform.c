#include "hpo/model/output_transform.h"

#include <float.h>
#include <gsl/gsl_sort.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

/* Both are in units of the distance from the lower quartile to the median. If the largest absolute
 * value exceeds `absurd`, all values are limited to the distance `far` from the median. */
static const double absurd = 1e100, far = 1e6;

/* Returns 1 if values above the knee are bent, -1 if values below it are, and 0 if none are. */
static double side(const struct output_transform *w)
{
    static const double sides[OUTPUT_TRANSFORM_KINDS] = {
        [OUTPUT_TRANSFORM_SQUASH] = 1, [OUTPUT_TRANSFORM_LIFT] = -1, [OUTPUT_TRANSFORM_LOG] = 1};
    return sides[w->kind];
}

static double within(const struct output_transform *w, double y)
{
    return fmin(fmax(y, w->low), w->high);
}

static double bent(const struct output_transform *w, double y)
{
    y = within(w, y);
    double by = side(w), beyond = by * (y / w->unit - w->knee);
    if (!(beyond > 0))
        return y / w->unit;
    return w->knee + by * w->spread * log1p(beyond / w->spread);
}

/* Sets shift and scale so that the n bent values get mean 0 and variance 1. */
static void standardise(struct output_transform *w, const double *y, size_t n)
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

/* Limits the values if one is out of proportion. Compared with a value such as the largest double,
 * which some programs report for a failure, all other values would look equal. */
static void limit(struct output_transform *w, double *sorted, size_t n)
{
    double middle = sorted[(n - 1) / 2], apart = middle - sorted[(n - 1) / 4];
    if (!(apart > 0) || fmax(fabs(sorted[0]), fabs(sorted[n - 1])) <= absurd * apart)
        return;
    w->low = middle - far * apart;
    w->high = middle + far * apart;
    for (size_t i = 0; i < n; i++)
        sorted[i] = within(w, sorted[i]);
}

void output_transform_fit(struct output_transform *w, enum output_transform_kind kind,
                          const double *y, size_t n)
{
    AUTO(free) double *sorted = xcalloc(n, sizeof *sorted);
    memcpy(sorted, y, n * sizeof *y);
    gsl_sort(sorted, 1, n);
    *w = (struct output_transform){.kind = kind, .low = -INFINITY, .high = INFINITY};
    limit(w, sorted, n);
    double unit = fmax(fabs(sorted[0]), fabs(sorted[n - 1]));
    w->unit = unit > 0 ? unit : 1;
    double least = sorted[0] / w->unit, quartile = sorted[(n - 1) / 4] / w->unit;
    double middle = sorted[(n - 1) / 2] / w->unit; /* the lower of two medians */
    w->knee = kind == OUTPUT_TRANSFORM_LOG ? least : middle / 2 + sorted[n / 2] / w->unit / 2;
    w->spread = kind == OUTPUT_TRANSFORM_LOG    ? quartile - least
                : kind == OUTPUT_TRANSFORM_LIFT ? middle - quartile
                                                : w->knee - least;
    if (!(w->spread > DBL_MIN)) /* 0, since too many values are equal: it cannot scale distances */
        w->kind = OUTPUT_TRANSFORM_NONE;
    standardise(w, y, n);
}

double output_transform_value(const struct output_transform *w, double y)
{
    return (bent(w, y) - w->shift) / w->scale;
}

double output_transform_inverse(const struct output_transform *w, double z)
{
    double straight = z * w->scale + w->shift, by = side(w), beyond = by * (straight - w->knee);
    if (beyond > 0)
        straight = w->knee + by * w->spread * expm1(beyond / w->spread);
    return within(w, straight * w->unit);
}

double output_transform_slope(const struct output_transform *w, double y)
{
    double beyond = side(w) * (within(w, y) / w->unit - w->knee);
    double bend = beyond > 0 ? w->spread / (w->spread + beyond) : 1;
    return bend / w->scale / w->unit;
}
