/* sweep_importance - how much of the variance over the space each parameter decides.
 *
 * A Gaussian process learns the values of the trials, and is asked at points that fill the space
 * evenly. So it makes no difference where a search has concentrated its trials. The predictions are
 * limited to the range of the values. The shares are Sobol's indices of the predicted function (I.
 * Sobol 1993; estimators of M. Jansen, Comput. Phys. Commun. 117 (1999), as in A. Saltelli et al.,
 * Comput. Phys. Commun. 181 (2010), table 2). They are what fANOVA computes with trees. A parameter
 * that is inactive decides nothing there. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "hpo/space/space.h"

struct sweep_importance { /* of one parameter */
    /* The share of the variance that is left if all other parameters are known, so it has all
     * interactions. The sum over all parameters is 1 without interactions, else more. */
    double total;
    /* An interval for the total: twice how it differs in random parts (63 %) of the trials, and the
     * error of the estimator. docs/search.md has how often it has the true share. */
    double low, high;
    double first;    /* the share that this parameter decides by itself; <= total, up to errors */
    double region;   /* the total share among the best fifth of the space; the sum is 1 */
    double from, to; /* coordinates: four fifths of the best twentieth of the space are between;
                        both are the most frequent value of a category */
    double trend; /* the correlation of the coordinate and the value over the space: above 0, lower
                     is better; 0 of a category */
};

/* Computes the shares of the parameters in out[0 … dims - 1] from n trials: point i is the row
 * u[i * dims …], its value y[i] is finite and smaller is better. At most 300 trials, spread evenly,
 * are used. `resamples` parts of the trials give the intervals; 0: low and high are the total. All
 * shares are 0 if the values are equal or noise (bayes_plateau.h). Every call with the same
 * arguments has the same result. Returns false if there is no model. Costs a fit, and (resamples +
 * 1) (dims + 2) 512 predictions (256 if dims > 8): 0.3 s for 300 trials and 3 parameters, 0.6 s for
 * 20 parameters, with 10 parts. */
bool sweep_importance(const struct space *space, const double *u, const double *y, size_t n,
                      size_t resamples, struct sweep_importance *out);
