#include "hpo/samplers/bayes_plateau.h"

#include <gsl/gsl_sort.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "common/mem.h"

enum { NOISE_MIN = 16, SKILL_MAX = 120 };
static const double single = 1e-6, chance = 1.5, stands_out = 6;

enum bayes_plateau bayes_plateau(const double *y, size_t n, double skill)
{
    if (n < 2)
        return BAYES_PLATEAU_NONE;
    AUTO(free) double *sorted = xcalloc(n, sizeof *sorted);
    memcpy(sorted, y, n * sizeof *y);
    gsl_sort(sorted, 1, n);
    double least = sorted[0], most = sorted[n - 1];
    double quartile = sorted[(n - 1) / 4], middle = sorted[(n - 1) / 2];
    if (most - least <= single * fmax(fabs(least), fabs(most)))
        return BAYES_PLATEAU_EQUAL;
    if (middle <= least)
        return BAYES_PLATEAU_BEST;
    bool predicted = !(skill < chance / sqrt(fmin((double)n, SKILL_MAX)));
    if (n < NOISE_MIN || predicted || middle - least > stands_out * (middle - quartile))
        return BAYES_PLATEAU_NONE;
    return BAYES_PLATEAU_NOISE;
}

char *bayes_plateau_text(enum bayes_plateau p, size_t n)
{
    static const char *const texts[] = {
        [BAYES_PLATEAU_EQUAL] = "the first %zu values are equal: exploring",
        [BAYES_PLATEAU_BEST] = "half or more of the first %zu values are the best one: exploring",
        [BAYES_PLATEAU_NOISE] = "the first %zu values say no more than their mean: exploring",
    };
    return texts[p] ? xasprintf(texts[p], n) : NULL;
}
