/* space - the parameters of a sweep, with conditions between them and constraints: random points,
 * and points by number.
 *
 * In a space from a sweep file, parameters are in alphabetical order at each level; in a space from
 * a list they are in the order of the list. When points are numbered, the last parameter changes
 * fastest. A parameter set ("params") is a JSON object in the form that a trial gets, with a nested
 * object for each group.
 *
 * A parameter may have conditions: it is active only if other parameters have certain values. A
 * parameter set contains only active parameters. The coordinate of an inactive parameter in the
 * unit cube is 0.5. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"
#include "common/rng.h"
#include "hpo/space/config_node.h"

struct distribution;
struct space;

/* Reads `parameters`; the caller frees `*out`. With `grid`, the points are those of `method: grid`,
 * and a distribution without a grid is an error. Appends notices for the user to the strv
 * `*notices`.
 *   -EINVAL  invalid; the message has the position in the file */
int space_read(struct space **out, const struct config_node *n, bool grid, char ***notices,
               struct err *e);

/* Reads the list form: items {"name", "type": "float" | "int" | "cat", "low", "high", "log",
 * "choices", "when"}, where `when` is a condition {"param", "in": [values]}, or a list of
 * conditions that must all hold. The caller frees `*out`.
 *   -EINVAL  a duplicate name, a key that the type does not have, invalid bounds, a condition on an
 *            unknown parameter, a float or an impossible value, or a cycle of conditions; the
 *            message has the item's name */
int space_read_list(struct space **out, const struct config_node *list, struct err *e);

/* Adds conditions to a space that space_read() returned. `when` maps the name of a parameter to a
 * condition or a list of conditions as above. If it is the name of a group, the conditions are for
 * all parameters of the group. Names in groups are dotted: optimizer.lr.
 *   -EINVAL  as space_read_list(); afterwards only space_free() may be called */
int space_add_conditions(struct space *s, const struct config_node *when, struct err *e);

/* Returns true if the name of a parameter matches ^[A-Za-z_][A-Za-z0-9_.-]*$, as W&B requires. */
bool space_name_ok(const char *name);

void space_free(struct space *s);
AUTO_DEFINE(space, struct space *, space_free)

/* Adds constraints (constraint.h): a list of expressions over parameter names, which are dotted in
 * groups. Call this after space_add_conditions(). A constraint holds if one of its parameters is
 * inactive.
 *   -EINVAL  an expression is invalid (the message has the position in the list, and LINE:COLUMN in
 *            the expression), or no point satisfies all constraints (the message names the
 *            constraint that fails most often). If there are up to 2^20 points, all are tested,
 *            otherwise 100,000 draws. Afterwards only space_free() may be called
 * Costs one test per tested point, and 4 bytes per point if all are tested. */
int space_add_constraints(struct space *s, const struct config_node *list, struct err *e);

/* Returns true if the constraints allow the point at u, or if there are none. Allocates nothing.
 * Costs about 100 ns for a simple constraint. */
bool space_allows(const struct space *s, const double *u);

/* Draws a random point that the constraints allow. If the points are not listed and fewer than
 * about one in 10,000 are allowed, the drawn point may be near a known allowed point. */
void space_draw(const struct space *s, struct rng *r, double *u);

/* Returns the number of parameters that vary, which excludes constants. Functions below use i from
 * 0 to this number - 1. */
size_t space_dims(const struct space *s);
const struct distribution *space_distribution(const struct space *s, size_t i);
/* Returns the name of parameter i, dotted in groups (optimizer.lr); borrowed. */
const char *space_name(const struct space *s, size_t i);

/* Returns the parameter set at the point u[0 … dims - 1] of the unit cube (new reference). */
json_t *space_sample(const struct space *s, const double *u);

/* Replaces u[0 … dims - 1] by space_unit(space_sample(u)), so that equal parameter sets have equal
 * u. Sets active[i] to true if parameter i is active; `active` may be NULL. Allocates nothing.
 * Costs distribution_snap() per parameter and about 10 ns per condition. */
void space_snap(const struct space *s, double *u, bool *active);

/* Sets u[0 … dims - 1] to the point of a parameter set. This is the inverse of space_sample(). If
 * several u give the same value, the centre of their range is used.
 *   -EINVAL  a parameter is missing, unknown or inactive, or its distribution cannot have the
 *            value; the message names the parameter */
int space_unit(const struct space *s, const json_t *params, double *u, struct err *e);

/* Reads a parameter set that a user wrote. All active parameters except constants must be present.
 * Sets `*out` to the complete set in the space's order (new reference). Values get the
 * form that the space itself gives (distribution_form()), and are made exact by
 * distribution_exact(), unless only the values as written satisfy the constraints.
 *   -EINVAL  as space_unit(), or the set violates a constraint; the message has the position in the
 *            file */
int space_params(json_t **out, const struct space *s, const struct config_node *n, struct err *e);

/* The same for a set in which parameters may be missing. They are drawn at random; the same seed
 * gives the same values.
 *   -EINVAL  as space_params(), or none of many random sets with the given values is allowed */
int space_complete(json_t **out, const struct space *s, const struct config_node *n, uint64_t seed,
                   struct err *e);

/* Returns a set with the members of `params` that the space has, in its order and in the form that
 * it gives (distribution_form()). Others may be missing; nothing is checked (new reference). */
json_t *space_form(const struct space *s, const json_t *params);

/* Returns the number of different points, or INFINITY if they cannot be counted or are more than
 * 2^53. Values of inactive parameters make no difference. If there are constraints and at most 2^20
 * points, only the allowed points count; otherwise all points count. */
double space_count(const struct space *s);
/* Returns the i-th point, 0 <= i < space_count(), as a parameter set (new reference). Returns NULL
 * if the constraints do not allow the point, which is only possible with more than 2^20 points. */
json_t *space_point(const struct space *s, double i);
/* Returns true if `params` is one of these points and the constraints allow it; false if the points
 * cannot be counted. */
bool space_has(const struct space *s, const json_t *params);

/* Returns `parameters` as read (new reference), with the name of every distribution and without
 * conditions. */
json_t *space_json(const struct space *s);
