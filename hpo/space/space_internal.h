/* space_internal - what the files of space share. */
#ifndef DROVER_SPACE_INTERNAL_H
#define DROVER_SPACE_INTERNAL_H

#include <stdint.h>

#include "hpo/space/distribution.h"
#include "hpo/space/space.h"

struct constraint;

struct space_condition { /* `parent`, a category or an integer, has one of the values `in` */
    size_t parent;
    double *in; /* their distribution_index(), ascending */
    size_t in_count;
};

struct space_param {
    char *name; /* without its groups */
    char *path; /* with its groups: optimizer.lr */
    struct distribution *distribution;
    size_t group;
    size_t dim;                             /* its coordinate in u; SIZE_MAX: a constant */
    struct space_condition *own_conditions; /* its conditions as read */
    size_t own_condition_count;
    /* All conditions that must hold: its own, and those of the parameters that they name.
     * Borrows their `in`. */
    struct space_condition *conditions;
    size_t condition_count;
};

struct space_group {
    char *name, *path;
    size_t parent;
};

struct space {
    struct space_param *params; /* in order; those of a group are adjacent */
    size_t count;
    struct space_group *groups; /* 0: the space itself; a group follows its parent */
    size_t group_count;
    size_t *by_dim;  /* coordinate in u -> parameter */
    json_t *by_path; /* path -> parameter; -1: ambiguous */
    size_t dims;
    bool grid;
    struct space_enumeration *enumeration; /* NULL: not countable */

    struct constraint **constraints;
    size_t constraint_count;
    uint32_t *allowed; /* the numbers of the allowed points; NULL: not listed */
    size_t allowed_count;
    double *example; /* an allowed point, drawn at random; NULL: listed, or no constraints */
};

struct space_coords {            /* a point in one of three forms; the others are NULL */
    const double *u;             /* dims */
    const double *indices;       /* count: index of the value; -1: not active */
    const json_t *const *values; /* count; NULL: not active */
};

/* ---- space.c -----------------------------------------------------------------------------------
 */

/* Adds a parameter (takes ownership of `d`), or a group and returns its number. */
void space_add(struct space *s, const char *name, size_t group, struct distribution *d);
size_t space_add_group(struct space *s, const char *name, size_t parent);

/* Sets what follows from parameters and conditions: coordinates, inherited conditions, the number
 * of points. Call it again after conditions are added.
 *   -EINVAL  conditions that lead back to their parameter, or too many; at `n` */
int space_finish(struct space *s, const struct config_node *n, struct err *e);

/* Builds a parameter set of one value per parameter; takes ownership of the values and skips
 * NULL. `key`: the members of a group are in its member `key`; NULL: in the group itself. New
 * reference. */
json_t *space_assemble(const struct space *s, json_t **values, const char *key);

/* ---- space_add_conditions.c
 * ------------------------------------------------------------------------------
 */

/* Whether parameter p's conditions hold at u; a condition on a NAN coordinate fails. */
bool space_is_active(const struct space *s, size_t p, const double *u);

/* Whether the index of the parent's value is one of the condition's. */
bool space_condition_holds(const struct space_condition *c, double index);

/* Finds the parameter with this path.
 *   -EINVAL  no parameter, or several; at `n`, with the nearest name */
int space_find_param(size_t *out, const struct space *s, const char *path,
                     const struct config_node *n, struct err *e);

/* Reads a condition {param, in}, or a list of conditions, for parameter p. */
int space_read_conditions(struct space *s, size_t p, const struct config_node *n, struct err *e);

/* Sets the `conditions` of all parameters.
 *   -EINVAL  as space_finish() */
int space_resolve_conditions(struct space *s, const struct config_node *n, struct err *e);

/* Why parameter p is not active at u, for a message. The caller frees it. */
char *space_inactive_reason(const struct space *s, size_t p, const double *u);

/* ---- space_count.c -----------------------------------------------------------------------------
 */

/* Sets s->enumeration.
 *   -E2BIG  the conditions lead to too many cases */
int space_enumerate(struct space *s);
void space_enumeration_free(struct space_enumeration *c);

/* The number of values of a parameter, and the i-th value (new reference). */
double space_value_count(const struct space *s, size_t p);
json_t *space_value(const struct space *s, size_t p, double i);

/* Sets the index of the value of each parameter at the i-th point that satisfies the conditions;
 * -1: not active. */
void space_point_indices(double *at, const struct space *s, double i);

/* ---- space_add_constraints.c
 * -------------------------------------------------------------------------
 */

/* Returns a constraint that the point violates, or NULL. */
const struct constraint *space_violated(const struct space *s, const struct space_coords *at);

#endif
