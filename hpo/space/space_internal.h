/* space_internal - types and functions that the files of space share. */
#pragma once

#include <stdint.h>

#include "hpo/space/distribution.h"
#include "hpo/space/space.h"

struct constraint;

struct space_condition { /* the parameter `parent`, a category or an integer, must have one of the
                            values `in` */
    size_t parent;
    double *in; /* distribution_index() of the values, ascending */
    size_t in_count;
};

struct space_param {
    char *name; /* without the names of its groups */
    char *path; /* with the names of its groups: optimizer.lr */
    struct distribution *distribution;
    size_t group;
    size_t dim;                             /* its coordinate in u; SIZE_MAX: a constant */
    struct space_condition *own_conditions; /* its conditions as read */
    size_t own_condition_count;
    /* All conditions that must hold: own_conditions, and those of the parameters that they name.
     * Their `in` is borrowed from own_conditions. */
    struct space_condition *conditions;
    size_t condition_count;
};

struct space_group {
    char *name, *path;
    size_t parent;
};

struct space {
    struct space_param *params; /* in the space's order; the parameters of a group are adjacent */
    size_t count;
    /* groups[0] is the space itself; a group has a higher index than its parent */
    struct space_group *groups;
    size_t group_count;
    size_t *by_dim;  /* maps a coordinate in u to its parameter */
    json_t *by_path; /* maps a path to its parameter; -1: ambiguous */
    size_t dims;
    bool grid;
    struct space_enumeration *enumeration; /* NULL: not countable */

    struct constraint **constraints;
    size_t constraint_count;
    uint32_t *allowed; /* the numbers of the allowed points, ascending; NULL: not listed */
    size_t allowed_count;
    double *example; /* an allowed point, drawn at random; NULL: allowed points are listed, or there
                        are no constraints */
};

struct space_coords {            /* a point in one of three forms; the others are NULL */
    const double *u;             /* dims numbers */
    const double *indices;       /* per parameter, the index of its value; -1: not active */
    const json_t *const *values; /* per parameter, its value; NULL: not active */
};

/* ---- space.c -------------------------------------------------------------------------------- */

/* Computes the fields that depend on all parameters and conditions: coordinates, inherited
 * conditions, the enumeration. Call it again after conditions are added.
 *   -EINVAL  a cycle of conditions, or too many conditions; the message has the position of `n` */
int space_finish(struct space *s, const struct config_node *n, struct err *e);

/* Returns a parameter set (new reference) with the value of each parameter. Takes the references to
 * the values; parameters with NULL are left out. If `key` is not NULL, the members of a group are
 * in the group's member `key`, otherwise in the group itself. */
json_t *space_assemble(const struct space *s, json_t **values, const char *key);

/* ---- space_conditions.c --------------------------------------------------------------------- */

/* Returns true if all conditions of parameter p hold at u. A condition on a NAN coordinate
 * fails. */
bool space_is_active(const struct space *s, size_t p, const double *u);

/* Returns true if the condition holds; `index` is the index of the parent's value. */
bool space_condition_holds(const struct space_condition *c, double index);

/* Finds the parameter with this path and sets `*out` to its index.
 *   -EINVAL  there is no such parameter (the hint is the nearest path), or several; the message has
 *            the position of `n` */
int space_find_param(size_t *out, const struct space *s, const char *path,
                     const struct config_node *n, struct err *e);

/* Reads a condition {param, in}, or a list of conditions, for parameter p. */
int space_read_conditions(struct space *s, size_t p, const struct config_node *n, struct err *e);

/* Sets the `conditions` of all parameters.
 *   -EINVAL  as space_finish() */
int space_resolve_conditions(struct space *s, const struct config_node *n, struct err *e);

/* Returns the reason why parameter p is not active at u, for a message. The caller frees the
 * text. */
char *space_inactive_reason(const struct space *s, size_t p, const double *u);

/* ---- space_enumerate.c ---------------------------------------------------------------------- */

/* Sets s->enumeration; it is NULL if the points cannot be counted.
 *   -E2BIG  the conditions lead to too many combinations */
int space_enumerate(struct space *s);
void space_enumeration_free(struct space_enumeration *c);

/* Return the number of values of parameter p, and its i-th value (new reference). */
double space_value_count(const struct space *s, size_t p);
json_t *space_value(const struct space *s, size_t p, double i);

/* Sets at[p] to the index of the value of parameter p at the i-th point of the enumeration; -1 if p
 * is not active. */
void space_point_indices(double *at, const struct space *s, double i);

/* ---- space_constraints.c -------------------------------------------------------------------- */

/* Returns a constraint that the point violates, or NULL. */
const struct constraint *space_violated(const struct space *s, const struct space_coords *at);
