/* importance - which parameters decide whether a trial is among the best, and which of their
 * values.
 *
 * A parameter is n values u in [0, 1], NAN for a trial that does not have it, since its conditions
 * do not hold. [0, 1] is divided into `cells` equal parts. A parameter with few values, also a
 * category, has one cell per value, with value i at (i + 0.5) / cells; others have
 * IMPORTANCE_CELLS. */
#ifndef DROVER_IMPORTANCE_H
#define DROVER_IMPORTANCE_H

#include <stdbool.h>
#include <stddef.h>

enum { IMPORTANCE_CELLS = 50 };

/* top[0 … n - 1]: whether y (smaller is better) is among the best tenth, including values equal
 * to its last. With few trials the best five count, but at most half of the trials. Cost O(n log
 * n). */
void importance_top(const double *y, size_t n, bool *top);

/* How differently a parameter is distributed in the top trials and in all trials: from 0, no
 * difference, without an upper bound. This is the variance in "is a top trial" that the parameter
 * explains by itself, up to a factor that all parameters share: divide by their sum.
 *
 * PED-ANOVA (S. Watanabe, A. Bansal and F. Hutter, "PED-ANOVA: efficiently quantifying
 * hyperparameter importance in arbitrary subspaces", IJCAI 2023; the local importance of reaching
 * the top): the Pearson divergence of two densities. If cells are ordered, the densities are sums
 * of Gaussian kernels of Scott's width and one kernel as wide as the axis. Otherwise they are
 * shares, with one trial spread over all cells. For parameters that not all trials have, the
 * divergence among those that do is multiplied by the squares of their share of the top trials and
 * of their share of all trials ("Conditional PED-ANOVA", arXiv 2601.20800, theorem 4.2). 0 if fewer
 * than two trials have it, or none in the top. With few trials even a parameter without effect has
 * some importance. Cost O(n + cells^2). */
double importance_of(const double *u, const bool *top, size_t n, size_t cells, bool ordered);

struct importance_slice { /* the trials of one cell */
    size_t count;
    double best, median; /* of their y; NAN without trials */
};

/* slices[0 … cells - 1]. Cost O(n log n). */
void importance_slices(const double *u, const double *y, size_t n, size_t cells,
                       struct importance_slice *slices);

#endif
