/* outcome - constraints on what a trial measures: a metric's last value must be within bounds. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { OUTCOME_MAX = 8 };

struct outcome_bound {
    char *metric;
    double min, max; /* infinite: not given */
};

struct outcomes { /* zeroes: there are none */
    struct outcome_bound at[OUTCOME_MAX];
    size_t count;
};

void outcome_clear(struct outcomes *o);

/* Returns by how much `value` is beyond a bound, which is 0 or less if it is within both. Returns
 * INFINITY if the value is not finite, or missing (NAN). */
double outcome_excess(const struct outcome_bound *b, double value);

/* Returns true if a trial whose metrics have these last values, {name: number}, satisfies all
 * constraints. A metric that is missing satisfies none. `o` may be NULL: no constraints. */
bool outcome_feasible(const struct outcomes *o, const json_t *metrics);

/* Returns the first metric of the constraints that is not a key of `reported` (borrowed), or NULL.
 */
const char *outcome_unreported(const struct outcomes *o, const json_t *reported);
