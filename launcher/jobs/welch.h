/* welch - a confidence interval for the difference of two means.
 *
 * Pure. Welch, The Generalization of "Student's" Problem when Several Different Population
 * Variances are Involved (Biometrika 34, 1947): the samples may differ in size and variance. The
 * interval is too narrow if the values of a sample depend on each other; means of blocks of them
 * depend less. */
#pragma once

#include <stdbool.h>

struct welch_sample {
    double mean, deviation; /* standard deviation, with the divisor n - 1 */
    int n;
};

/* Sets *low and *high to the 95 % confidence interval of b's mean minus a's. Returns false, and
 * sets nothing, if a sample has fewer than 2 values. */
bool welch_interval(double *low, double *high, const struct welch_sample *a,
                    const struct welch_sample *b);

/* Returns the value that the amount of Student's t exceeds with a probability of 5 %, with an error
 * below 1e-8 of it. `freedom`: the degrees of freedom, at least 1; not necessarily an integer. */
double welch_quantile(double freedom);
