/* importance - which parameters decide whether a trial is among the best.
 *
 * A parameter is given as n values u in [0, 1], one per trial. A value is NAN if the trial does not
 * have the parameter, since its conditions do not hold. [0, 1] is divided into `cells` equal parts.
 * A category, or a number with few values, has one cell per value, and its value i is (i + 0.5) /
 * cells. Other parameters have IMPORTANCE_CELLS cells. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { IMPORTANCE_CELLS = 50 };

/* Sets top[i] to true if y[i] (smaller is better) is among the best tenth, or equal to the worst
 * value of this tenth. If there are few trials the best five are taken, but at most half of the
 * trials. Costs O(n log n). */
void importance_top(const double *y, size_t n, bool *top);

/* Returns how much the distribution of a parameter in the top trials differs from its distribution
 * in all trials. The result is 0 if they are equal, and has no upper bound. It is the variance of
 * "is a top trial" that the parameter explains by itself, up to a factor that all parameters share.
 * So callers divide it by the sum over all parameters.
 *
 * The method is PED-ANOVA: the Pearson divergence of the two densities (S. Watanabe, A. Bansal and
 * F. Hutter, "PED-ANOVA: efficiently quantifying hyperparameter importance in arbitrary subspaces",
 * IJCAI 2023; local importance of reaching the top). If the cells are `ordered`, a density is a sum
 * of Gaussian kernels of Scott's width and one kernel as wide as the axis. Otherwise a density is
 * the share of trials in each cell, with one more trial spread over all cells. If not all trials
 * have the parameter, the divergence is computed among those that have it. It is then multiplied by
 * the square of their share of the top trials, and divided by their share of all trials
 * ("Conditional PED-ANOVA", arXiv 2601.20800, theorem 4.2).
 *
 * Returns 0 if fewer than two trials have the parameter, or no top trial has it. If there are few
 * trials, even a parameter without effect has some importance. Costs O(n + cells^2). */
double importance_of(const double *u, const bool *top, size_t n, size_t cells, bool ordered);
