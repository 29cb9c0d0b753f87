/* output_transform - makes outputs easier for a Gaussian process: bends them on one side or not,
 * then standardises them.
 *
 * With M the median, OUTPUT_TRANSFORM_SQUASH leaves better values unchanged and replaces worse
 * values by M + S ln(1 + (y - M) / S), S = M - min: bad values, however bad, do not flatten the
 * good ones. OUTPUT_TRANSFORM_LIFT leaves worse values unchanged and replaces better values by M -
 * S ln(1 + (M - y) / S), S = M - the lower quartile: if most points are about equally bad and few
 * are much better, the way down becomes straighter, and the model sees further along it.
 * OUTPUT_TRANSFORM_LOG replaces all values by min + S ln(1 + (y - min) / S), S = the lower quartile
 * - min: if values span orders of magnitude above their minimum, as sums of squares do, each factor
 * is one step. The evidence decides which one is best. The logarithm of the transform's slope is
 * added to it, so that densities are over y (Snelson, Rasmussen & Ghahramani, "Warped Gaussian
 * processes", NIPS 2003, eq. 6).
 *
 * Values out of all proportion, such as the largest double, which stands for a failure, are limited
 * before: if the largest is more than 1e100 times M - the lower quartile, all values are limited to
 * 1e6 times this distance from M. */
#ifndef DROVER_OUTPUT_TRANSFORM_H
#define DROVER_OUTPUT_TRANSFORM_H

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
    double unit;         /* all fields below are in units of the largest value */
    double knee, spread; /* start of the bend: M or min; S */
    double shift, scale; /* of the standardisation, after bending */
};

/* Fits to n > 0 finite values. If all are equal they become 0. If S is 0 the kind becomes
 * OUTPUT_TRANSFORM_NONE. Cost n log n. */
void output_transform_fit(struct output_transform *w, enum output_transform_kind kind,
                          const double *y, size_t n);

/* The transformed value of y, which increases with y from `low` to `high`. The n values get mean
 * 0 and variance 1 if they are not all equal. */
double output_transform_value(const struct output_transform *w, double y);

/* The slope of output_transform_value() at y, or at the limit if y is beyond it. */
double output_transform_slope(const struct output_transform *w, double y);

#endif
