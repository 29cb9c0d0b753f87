/* bayes_plateau - do the values that are known say where better ones are?
 *
 * They do not on a plateau: all values are equal, or half of them are equal and none is better
 * (accuracy at chance, a clipped loss), or they are noise. There a model proposes corners and
 * edges, since it is least certain there; points that fill the space find more. */
#pragma once

#include <stddef.h>

enum bayes_plateau {
    BAYES_PLATEAU_NONE,  /* the values say something */
    BAYES_PLATEAU_EQUAL, /* all are equal, to 1e-6 of the largest: single precision */
    BAYES_PLATEAU_BEST,  /* at least half of them are the best value, exactly */
    BAYES_PLATEAU_NOISE, /* the model predicts them no better than their mean does */
};

/* Judges n finite values y, smaller is better. `skill` is gp_skill() of the model, NAN without a
 * model. Noise counts from 16 values on, if the skill is below 1.5 / sqrt(n), which chance alone
 * may reach (n <= 120), and if the best value does not stand out: it is less than six times as far
 * below the median as the lower quartile is, four standard deviations of a normal distribution.
 * Returns BAYES_PLATEAU_NONE if n < 2. Costs O(n log n). */
enum bayes_plateau bayes_plateau(const double *y, size_t n, double skill);

/* Returns "the first 20 values are equal: exploring", which the caller frees; NULL for
 * BAYES_PLATEAU_NONE. */
char *bayes_plateau_text(enum bayes_plateau p, size_t n);
