/* output_transform - makes outputs easier to model for a Gaussian process: may bend them on one
 * side, then standardises them.
 *
 * With M the median, OUTPUT_TRANSFORM_SQUASH leaves better values unchanged and replaces worse
 * values by M + S ln(1 + (y - M) / S), S = M - min: very bad values then do not hide the
 * differences between good ones. OUTPUT_TRANSFORM_LIFT leaves worse values unchanged and replaces
 * better values by M - S ln(1 + (M - y) / S), S = M - the lower quartile: if most points are about
 * equally bad and few are much better, the slope towards the good points becomes more even, and the
 * model can extrapolate further. OUTPUT_TRANSFORM_LOG replaces all values by min + S ln(1 + (y -
 * min) / S), S = the lower quartile - min: if values span orders of magnitude above their minimum,
 * as sums of squares do, equal factors become equal differences. The evidence decides which kind is
 * best. The logarithm of the transform's slope is added to the evidence, so that it is a density
 * over y for every kind (Snelson, Rasmussen & Ghahramani, "Warped Gaussian processes", NIPS 2003,
 * eq. 6).
 *
 * Before that, values out of all proportion are limited, such as the largest double, which some
 * programs report for a failure. Let D = M - the lower quartile. If the largest absolute value
 * exceeds 1e100 D, all values are limited to M - 1e6 D … M + 1e6 D. */
#pragma once

#include <stddef.h>

enum output_transform_kind {
    OUTPUT_TRANSFORM_NONE,
    OUTPUT_TRANSFORM_SQUASH,
    OUTPUT_TRANSFORM_LIFT,
    OUTPUT_TRANSFORM_LOG,
    OUTPUT_TRANSFORM_KINDS
};

struct output_transform { /* set by output_transform_fit() */
    enum output_transform_kind kind;
    double low, high;    /* limits of the values; infinite if all are in proportion */
    double unit;         /* the largest absolute value; the fields below are in this unit */
    double knee, spread; /* where the bend starts (M or min); S */
    double shift, scale; /* for the standardisation of bent values */
};

/* Fits the transform to n > 0 finite values. If all values are equal, the transform gives 0 for
 * them. If S is 0, the kind becomes OUTPUT_TRANSFORM_NONE. Costs O(n log n). */
void output_transform_fit(struct output_transform *w, enum output_transform_kind kind,
                          const double *y, size_t n);

/* Returns the transformed value of y. It increases with y between `low` and `high`. The n fitted
 * values get mean 0 and variance 1, unless all are equal. */
double output_transform_value(const struct output_transform *w, double y);

/* Returns the y whose transformed value is z, or the nearest limit if there is none. */
double output_transform_inverse(const struct output_transform *w, double z);

/* Returns the slope of output_transform_value() at y, or at the nearest limit if y is outside [low,
 * high]. */
double output_transform_slope(const struct output_transform *w, double y);
