/* distribution - one parameter of a sweep: the distribution that its values are drawn from.
 *
 * These are W&B's distributions, by their quantile functions: the value at u in [0, 1]. At the ends
 * u is clamped, so that every value is finite and within the bounds of the file. q_ forms are
 * round(x / q) * q, with halves to even, and may leave [min, max] by q / 2.
 *
 * drover adds int_log_uniform: integers, with equal weight for equal parts of a logarithmic scale
 * from min - 1/2 to max + 1/2. */
#ifndef DROVER_DISTRIBUTION_H
#define DROVER_DISTRIBUTION_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/space/config_node.h"

enum distribution_kind {
    DISTRIBUTION_CONSTANT,
    DISTRIBUTION_CATEGORICAL,
    DISTRIBUTION_INT,
    DISTRIBUTION_INT_LOG, /* distributions up to here have single values */
    DISTRIBUTION_UNIFORM,
    DISTRIBUTION_LOG_UNIFORM,
    DISTRIBUTION_NORMAL,
    DISTRIBUTION_LOG_NORMAL,
    DISTRIBUTION_BETA,
};

struct distribution { /* constant after it is read */
    enum distribution_kind kind;
    const char *name; /* W&B's name */
    /* INT, UNIFORM: min, max. LOG_UNIFORM: ln min, ln max. INT_LOG: ln (min - 1/2),
     * ln (max + 1/2). NORMAL, LOG_NORMAL: mu, sigma. BETA: a, b. */
    double a, b;
    double lo, hi; /* bounds before rounding; infinite if there are none */
    double q;      /* 0: not rounded */
    bool whole;    /* q was written as an integer, so values are integers */
    /* CONSTANT: one value. CATEGORICAL: different values (3 and 3.0 are equal), each with a
     * probability > 0; the range of u of value i ends at cumulative[i]. */
    json_t *values;
    json_t *index; /* distribution_key() of each value -> its index */
    double *cumulative;
    bool weighted; /* the file has probabilities */
};

/* Reads an entry of `parameters`. Appends notices for the user to the strv `*notices`.
 *   -EINVAL  an unknown distribution or key, or invalid bounds; with the position in the file */
int distribution_read(struct distribution **out, const struct config_node *n, char ***notices,
                      struct err *e);

/* Reads the values of an item of the list form of a space: {"type": "float" | "int" | "cat", "low",
 * "high", "log", "choices"}. The caller reads other keys. low == high is a constant.
 *   -EINVAL  as distribution_read() */
int distribution_read_item(struct distribution **out, const struct config_node *n, struct err *e);
void distribution_free(struct distribution *d);
AUTO_DEFINE(distribution, struct distribution *, distribution_free)

/* The value at u: a new reference. */
json_t *distribution_quantile(const struct distribution *d, double u);

/* The same as a number; NAN if it is not one. Allocates nothing. */
double distribution_number(const struct distribution *d, double u);

/* The u whose quantile is `value`; the center if there are several. NAN if `value` has another
 * type or is not in the list. */
double distribution_unit(const struct distribution *d, const json_t *value);

/* distribution_unit(distribution_quantile(u)): the same u for all u with equal values. Costs
 * about 10 ns; up to 50 us for a beta that is rounded, or has a or b outside [1, 100]. */
double distribution_snap(const struct distribution *d, double u);

/* The snapped u of the value that is `by` values above u's value, or below it if negative; of
 * the first or last value at the ends. NAN if values cannot be counted. Costs as
 * distribution_snap(). */
double distribution_neighbor(const struct distribution *d, double u, int by);

/* The number of different values; INFINITY: not countable. distribution_value() returns the
 * i-th, smallest first; distribution_index() returns the index of u's value (NAN: not
 * countable). */
double distribution_count(const struct distribution *d);
json_t *distribution_value(const struct distribution *d, double i);
double distribution_index(const struct distribution *d, double u);

/* The same for `method: grid`, where q_uniform is min, min + q, … below max. -1: the
 * distribution has no grid. */
double distribution_grid_count(const struct distribution *d);
json_t *distribution_grid_value(const struct distribution *d, double i);

/* Whether `value` is one of the countable values, or one of the grid. */
bool distribution_has(const struct distribution *d, const json_t *value, bool grid);

/* A value as the distribution returns it. A number that is a multiple of q except for its last
 * digits, as 0.3 is of 0.1 (0.30000000000000004), becomes this multiple, or with `grid` the
 * grid's value. Others stay unchanged. New reference. */
json_t *distribution_exact(const struct distribution *d, json_t *value, bool grid);

/* {"distribution":…, …} as it was read. New reference. */
json_t *distribution_json(const struct distribution *d);

/* A text that is the same for equal values: 3 and 3.0 are equal, and the order of keys does not
 * matter. The caller frees it. */
char *distribution_key(const json_t *value);

#endif
