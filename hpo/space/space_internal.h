/* space_in - what the files of the space share; nobody else includes it. */
#ifndef DROVER_SPACE_INTERNAL_H
#define DROVER_SPACE_INTERNAL_H

#include <stdint.h>

#include "hpo/space/distribution.h"
#include "hpo/space/space.h"

struct constraint;

struct space_condition { /* `parent`, a category or an integer, has one of the values `in` */
    size_t parent;
    double *in; /* their distribution_index(), rising */
    size_t in_count;
};

struct space_param {
    char *name; /* in its group */
    char *path; /* with its groups: optimizer.lr */
    struct distribution *dist;
    size_t group;
    size_t dim;                  /* its place in u; SIZE_MAX: a constant */
    struct space_condition *own; /* its conditions as they were read */
    size_t own_count;
    /* All that has to hold: its own, and those of the parameters that they name. Borrows their
     * `in`. */
    struct space_condition *conds;
    size_t cond_count;
};

struct space_group {
    char *name, *path;
    size_t parent;
};

struct space {
    struct space_param *params; /* in order; those of a group lie together */
    size_t count;
    struct space_group *groups; /* 0: the space itself; one comes after its parent */
    size_t group_count;
    size_t *by_dim;  /* the parameter of each place in u */
    json_t *by_path; /* path -> which parameter; -1: more than one */
    size_t dims;
    bool grid;
    struct space_enumeration *cases; /* NULL: not countable */

    struct constraint **rules;
    size_t rule_count;
    uint32_t *allowed; /* the numbers of the points that they allow; NULL: not listed */
    size_t allowed_count;
    double *example; /* one that they allow, found by chance; NULL: listed, or no rules */
};

struct space_coords {            /* a point in one of three ways; the others are NULL */
    const double *u;             /* dims */
    const double *digits;        /* count: which value; -1: not active */
    const json_t *const *values; /* count: NULL: not active */
};

/* ---- space.c -----------------------------------------------------------------------------------
 */

/* Adds a parameter (taking over `d`), or a group: its number. */
void space_add(struct space *s, const char *name, size_t group, struct distribution *d);
size_t space_add_group(struct space *s, const char *name, size_t parent);

/* What follows from parameters and conditions: places, whose conditions count, the number of
 * points. To be called again when conditions are added.
 *   -EINVAL  conditions that lead back to their parameter, or are too many; at `n` */
int space_finish(struct space *s, const struct config_node *n, struct err *e);

/* Objects in objects, of one value for each parameter; they are taken over, NULL is left out.
 * `key`: what is in a group lies under this key of its object (NULL: as it is). New reference. */
json_t *space_assemble(const struct space *s, json_t **values, const char *key);

/* ---- space_add_conditions.c
 * ------------------------------------------------------------------------------
 */

/* Whether parameter p's conditions hold at u; a place that is NAN holds none. */
bool space_is_active(const struct space *s, size_t p, const double *u);

/* Whether a value of the parent, by its index, is one of the condition's. */
bool space_condition_holds(const struct space_condition *c, double index);

/* Which parameter has that path.
 *   -EINVAL  none, or more than one; at `n`, with the nearest name */
int space_find_param(size_t *out, const struct space *s, const char *path,
                     const struct config_node *n, struct err *e);

/* Reads a condition {param, in}, or a list of them, for parameter p. */
int space_read_conditions(struct space *s, size_t p, const struct config_node *n, struct err *e);

/* Sets every parameter's `conds`.
 *   -EINVAL  see space_finish() */
int space_resolve_conditions(struct space *s, const struct config_node *n, struct err *e);

/* Why parameter p is not active at u, for a message. To be freed by the caller. */
char *space_inactive_reason(const struct space *s, size_t p, const double *u);

/* ---- space_count.c -----------------------------------------------------------------------------
 */

/* Sets s->cases. -E2BIG: the conditions leave too many cases. */
int space_enumerate(struct space *s);
void space_enumeration_free(struct space_enumeration *c);

/* How many values a parameter has, and the i-th of them (new reference). */
double space_value_count(const struct space *s, size_t p);
json_t *space_value(const struct space *s, size_t p, double i);

/* Which value each parameter has at the i-th point that the conditions leave; -1: not active. */
void space_point_indices(double *at, const struct space *s, double i);

/* ---- space_add_constraints.c
 * -------------------------------------------------------------------------
 */

/* A constraint that the point breaks, or NULL. */
const struct constraint *space_violated(const struct space *s, const struct space_coords *at);

#endif
