/* importance - which parameters decide whether a trial is among the best, and where in each.
 *
 * A parameter is n values u in [0, 1], NAN where a trial has none: it belongs to a branch that the
 * trial is not on. It is looked at in `cells` equal parts of [0, 1]: for one with few values as
 * many, value i at (i + 0.5) / cells, so for categories, too; for others IMPORTANCE_CELLS. */
#ifndef DROVER_IMPORTANCE_H
#define DROVER_IMPORTANCE_H

#include <stdbool.h>
#include <stddef.h>

enum { IMPORTANCE_CELLS = 50 };

/* top[0 … n - 1]: whether y, the smaller the better, is among the best tenth, those equal to its
 * last included. Of few trials, the best five count, but not more than half. Cost O(n log n). */
void importance_top(const double *y, size_t n, bool *top);

/* How differently a parameter is distributed in the top and in all trials: 0: not at all; without
 * bound. It is the variance in "is a top trial" that the parameter explains by itself, but for a
 * factor that all parameters share: divide by their sum.
 *
 * PED-ANOVA (S. Watanabe, A. Bansal and F. Hutter, "PED-ANOVA: efficiently quantifying
 * hyperparameter importance in arbitrary subspaces", IJCAI 2023; the local importance of reaching
 * the top): the Pearson divergence of two densities. Where cells are ordered, those are Gaussian
 * kernels of Scott's width and one as wide as the axis; else shares, with one trial spread over all
 * cells. For parameters that not all trials have, the divergence among those that do, times the
 * square of their share of the top by their share of all ("Conditional PED-ANOVA", arXiv
 * 2601.20800, theorem 4.2). 0 with less than two trials that have it, or none in
 * the top. With few trials even a parameter without effect has some. Cost O(n + cells^2). */
double importance_of(const double *u, const bool *top, size_t n, size_t cells, bool ordered);

struct importance_slice { /* the trials of one cell */
    size_t count;
    double best, median; /* of their y; NAN where there are none */
};

/* slices[0 … cells - 1]. Cost O(n log n). */
void importance_slices(const double *u, const double *y, size_t n, size_t cells,
                       struct importance_slice *slices);

#endif
