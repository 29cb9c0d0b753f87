/* distribution - one parameter of a sweep: the distribution that its values are drawn from.
 *
 * These are W&B's distributions. Each is defined by its quantile function, which maps u in [0, 1]
 * to a value. Near 0 and 1 u is clamped, so that every value is finite and within the bounds of the
 * sweep file. q_ forms have the values round(x / q) * q, where halves are rounded to even. Rounding
 * may move a value out of [min, max] by up to q / 2.
 *
 * drover adds int_log_uniform. Its values are integers, rounded from a number whose logarithm is
 * uniform between ln(min - 1/2) and ln(max + 1/2). */
#pragma once

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
    DISTRIBUTION_INT_LOG, /* the values of the kinds up to here can be listed */
    DISTRIBUTION_UNIFORM,
    DISTRIBUTION_LOG_UNIFORM,
    DISTRIBUTION_NORMAL,
    DISTRIBUTION_LOG_NORMAL,
    DISTRIBUTION_BETA,
};

struct distribution { /* does not change after it is read */
    enum distribution_kind kind;
    const char *name; /* W&B's name */
    /* INT, UNIFORM: min, max. LOG_UNIFORM: ln min, ln max. INT_LOG: ln (min - 1/2),
     * ln (max + 1/2). NORMAL, LOG_NORMAL: mu, sigma. BETA: a, b. */
    double a, b;
    double lo, hi; /* bounds before rounding to multiples of q; infinite if there are none */
    double q;      /* values are multiples of q; 0: not rounded */
    bool whole;    /* q was written as an integer, so values are integers */
    /* CONSTANT: one value. CATEGORICAL: different values (3 and 3.0 are equal), each with a
     * probability > 0. Value i has the u from cumulative[i - 1] to cumulative[i]. */
    json_t *values;
    json_t *index; /* maps distribution_key() of each value to its index */
    double *cumulative;
    bool weighted; /* the file has probabilities */
};

/* Reads an entry of `parameters`; the caller frees `*out`. Appends notices for the user to the strv
 * `*notices`.
 *   -EINVAL  an unknown distribution or key, or invalid bounds; the message has the position in the
 *            file */
int distribution_read(struct distribution **out, const struct config_node *n, char ***notices,
                      struct err *e);

/* Reads the distribution of an item of the list form of a space: {"type": "float" | "int" | "cat",
 * "low", "high", "log", "choices"}. The caller checks the other keys, and frees `*out`. low == high
 * gives a constant.
 *   -EINVAL  as distribution_read() */
int distribution_read_item(struct distribution **out, const struct config_node *n, struct err *e);
void distribution_free(struct distribution *d);
AUTO_DEFINE(distribution, struct distribution *, distribution_free)

/* Returns the value at u (new reference). */
json_t *distribution_quantile(const struct distribution *d, double u);

/* Returns the value at u as a number, or NAN if the value is not a number. Allocates nothing. */
double distribution_number(const struct distribution *d, double u);

/* Returns the u whose quantile is `value`, or the centre of their range if several u have this
 * value. Returns NAN if the distribution cannot have this value. */
double distribution_unit(const struct distribution *d, const json_t *value);

/* Returns distribution_unit(distribution_quantile(u)), which is equal for all u that have the same
 * value. Costs about 10 ns, but up to 50 us for a beta distribution that is rounded, or has a or b
 * outside [1, 100]. */
double distribution_snap(const struct distribution *d, double u);

/* Returns the snapped u of a neighbour of the value at u: `by` values further up, or down if `by`
 * is negative. If there are fewer values, the neighbour is the last or the first value. Returns NAN
 * if the values cannot be counted. Costs the same as distribution_snap(). */
double distribution_neighbor(const struct distribution *d, double u, int by);

/* distribution_count() returns the number of different values, or INFINITY if they cannot be
 * counted. distribution_value() returns the i-th value (new reference); numbers are in ascending
 * order. distribution_index() returns the index of the value at u, or NAN if values cannot be
 * counted. */
double distribution_count(const struct distribution *d);
json_t *distribution_value(const struct distribution *d, double i);
double distribution_index(const struct distribution *d, double u);

/* The same for `method: grid`, where the values of q_uniform are min, min + q, … below max.
 * distribution_grid_count() returns -1 if the distribution has no grid. */
double distribution_grid_count(const struct distribution *d);
json_t *distribution_grid_value(const struct distribution *d, double i);

/* Returns true if `value` is one of the countable values or, with `grid`, one of the grid's
 * values. */
bool distribution_has(const struct distribution *d, const json_t *value, bool grid);

/* Returns the value in the form that the distribution itself returns (new reference): a category as
 * it is in the list, an integer where the values are integers. Another value, and an integer where
 * the values are reals, stay unchanged. */
json_t *distribution_form(const struct distribution *d, json_t *value);
/* The same. A number may also differ from a multiple of q in its last digits: 0.3, but 3 * 0.1 is
 * 0.30000000000000004. Such a number becomes this multiple or, with `grid`, the grid's value. */
json_t *distribution_exact(const struct distribution *d, json_t *value, bool grid);

/* Returns {"distribution": …, …} with the keys and values of the sweep file (new reference). */
json_t *distribution_json(const struct distribution *d);

/* Returns a text that is the same for equal values. 3 and 3.0 are equal, and the order of keys does
 * not matter. The caller frees the text. */
char *distribution_key(const json_t *value);
