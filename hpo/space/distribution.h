/* dist - one parameter of a sweep: the distribution that its values are drawn from.
 *
 * W&B's distributions by their quantile functions: the value at u in [0, 1]. At the ends u is
 * clamped, so that every value is finite and within what the file says. q_ forms are
 * round(x / q) * q, halves to even, and may leave [min, max] by q / 2.
 *
 * Ours: int_log_uniform, integers of equal weight to equal parts of a logarithmic scale from
 * min - 1/2 to max + 1/2. */
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
    DISTRIBUTION_INT_LOG, /* up to here: of single values */
    DISTRIBUTION_UNIFORM,
    DISTRIBUTION_LOG_UNIFORM,
    DISTRIBUTION_NORMAL,
    DISTRIBUTION_LOG_NORMAL,
    DISTRIBUTION_BETA,
};

struct distribution { /* constant once it is read */
    enum distribution_kind kind;
    const char *name; /* W&B's word for it */
    /* INT, UNIFORM: min, max. LOG_UNIFORM: ln min, ln max. INT_LOG: ln (min - 1/2),
     * ln (max + 1/2). NORMAL, LOG_NORMAL: mu, sigma. BETA: a, b. */
    double a, b;
    double lo, hi; /* where values lie before they are rounded; infinite where nowhere ends */
    double q;      /* 0: not rounded */
    bool whole;    /* q was written as an integer: so are the values */
    /* CONSTANT: one; CATEGORICAL: different values (3 and 3.0 are the same), each of a
     * probability > 0, which end at cumulative[i]. */
    json_t *values;
    json_t *index; /* distribution_key() of each -> which it is */
    double *cumulative;
    bool weighted; /* probabilities were given */
};

/* Reads an entry of `parameters`. Appends to the strv `*notices` what the user should know.
 *   -EINVAL  an unknown distribution or key, a bound that makes no sense; at the place in the file
 */
int distribution_read(struct distribution **out, const struct config_node *n, char ***notices,
                      struct err *e);

/* Reads what an item of a space's list form says of its values: {"type": "float" | "int" | "cat",
 * "low", "high", "log", "choices"}; other keys are the caller's. low == high is a constant.
 *   -EINVAL  likewise */
int distribution_read_item(struct distribution **out, const struct config_node *n, struct err *e);
void distribution_free(struct distribution *d);
AUTO_DEFINE(distribution, struct distribution *, distribution_free)

/* The value at u: a new reference. */
json_t *distribution_quantile(const struct distribution *d, double u);

/* The same as a number; NAN where it is none. No allocation. */
double distribution_number(const struct distribution *d, double u);

/* The u whose quantile is `value`: the middle of them where many are. NAN where `value` is of
 * another type or is none of a list's. */
double distribution_unit(const struct distribution *d, const json_t *value);

/* distribution_unit(distribution_quantile(u)): the same for all u of one value. Some 10 ns; up to
 * 50 us for a beta with a or b out of [1, 100], or rounded. */
double distribution_snap(const struct distribution *d, double u);

/* The settled u of the value that lies `by` places up or down from u's; that of the first or last
 * one where there are no more. NAN where values are not countable. Cost as distribution_snap().
 */
double distribution_neighbor(const struct distribution *d, double u, int by);

/* How many different values there are; INFINITY: not countable. distribution_value() gives them by
 * index, smallest first; distribution_index() is the index of u's (NAN: not countable). */
double distribution_count(const struct distribution *d);
json_t *distribution_value(const struct distribution *d, double i);
double distribution_index(const struct distribution *d, double u);

/* The same for `method: grid`: q_uniform is min, min + q, … below max. -1: this distribution has
 * no grid. */
double distribution_grid_count(const struct distribution *d);
json_t *distribution_grid_value(const struct distribution *d, double i);

/* Whether `value` is one of the counted ones: those of the grid, or all. */
bool distribution_has(const struct distribution *d, const json_t *value, bool grid);

/* A value as the distribution itself gives it: where it is a multiple of q but for its last digits,
 * as 0.3 is of 0.1 (0.30000000000000004), that multiple; with `grid`, the grid's value. Others as
 * they are. New reference. */
json_t *distribution_exact(const struct distribution *d, json_t *value, bool grid);

/* {"distribution":…, …} as read. New reference. */
json_t *distribution_json(const struct distribution *d);

/* A text that is the same for equal values, where 3 and 3.0 are equal and the order of keys does
 * not count. To be freed by the caller. */
char *distribution_key(const json_t *value);

#endif
