/* warp - outputs made easier for a Gaussian process: bent on one side or not, then standardised.
 *
 * With M the median, OUTPUT_TRANSFORM_SQUASH leaves what is better as it is and takes M + S ln(1 +
 * (y - M) / S) of what is worse, S = M - min: bad values, however bad, do not flatten the good
 * ones. OUTPUT_TRANSFORM_LIFT leaves what is worse and takes M - S ln(1 + (M - y) / S) of what is
 * better, S = M - the lower quartile: where most places are about equally bad and few are much
 * better, the way down gets the straighter, and the model sees further along it.
 * OUTPUT_TRANSFORM_LOG takes min + S ln(1 + (y - min) / S) of all, S = the lower quartile - min:
 * where values span orders of magnitude above their least, as those of a sum of squares do, each
 * factor is one step. Which serves best is told by the evidence, to which the logarithm of the
 * transform's slope is added, so that densities are over y (Snelson, Rasmussen & Ghahramani,
 * "Warped Gaussian processes", NIPS 2003, eq. 6).
 *
 * Values that are out of all proportion, as the largest double that stands for a failure, are moved
 * in before: where the largest is more than 1e100 times M - the lower quartile, none counts as more
 * than 1e6 times that from M. */
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
    double low, high; /* values beyond them count as these; infinite where all are in proportion */
    double unit;      /* all that follows is in units of the largest value */
    double knee, spread; /* where the bend begins: M or min; S */
    double shift, scale; /* of the standardisation, after the bending */
};

/* For n > 0 finite values. Where all are equal they become 0. Where S is 0 the kind becomes
 * OUTPUT_TRANSFORM_NONE. Cost n log n. */
void output_transform_fit(struct output_transform *w, enum output_transform_kind kind,
                          const double *y, size_t n);

/* The value of y; it rises with y, from `low` to `high`. Of n values: mean 0, variance 1, where
 * they are not all equal. */
double output_transform_value(const struct output_transform *w, double y);

/* The slope of output_transform_value() at y, or at the limit that y is beyond. */
double output_transform_slope(const struct output_transform *w, double y);

#endif
