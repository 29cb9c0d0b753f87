/* space - the parameters of a sweep together: points of it, by chance or by number.
 *
 * Parameters are taken in alphabetical order at each level, whatever the file's order, or in that
 * of their list; the last one moves fastest when points are counted. A parameter set ("params") is
 * a JSON object as a trial gets it, with an object for each group.
 *
 * A parameter may have conditions: it is active, that is part of a parameter set, only where
 * others have certain values. The place in the cube of one that is not active is 0.5. */
#ifndef DROVER_SPACE_H
#define DROVER_SPACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"
#include "common/rng.h"
#include "hpo/space/config_node.h"

struct distribution;
struct space;

/* Reads `parameters`. With `grid`, points are those of `method: grid`, and a distribution that has
 * none is an error. Appends to the strv `*notices`.
 *   -EINVAL  at the place in the file */
int space_read(struct space **out, const struct config_node *n, bool grid, char ***notices,
               struct err *e);

/* Reads the list form: items {"name", "type": "float" | "int" | "cat", "low", "high", "log",
 * "choices", "when"}, where `when` is a condition {"param", "in": [values]}, or a list of
 * conditions that all must hold. Appends to the strv `*notices`. -EINVAL  naming the item: a name
 * twice, a key that its type does not have, bounds that make no sense, a condition on what is not
 * there, on a float, on a value that cannot be, or on itself by a detour */
int space_read_list(struct space **out, const struct config_node *list, char ***notices,
                    struct err *e);

/* Adds conditions to a space that space_read() gave: a mapping from the name of a parameter, or of
 * a group, whose parameters are all meant, to a condition or a list as above. Names in groups are
 * dotted: optimizer.lr.
 *   -EINVAL  as space_read_list(); the space is then only fit for space_free() */
int space_add_conditions(struct space *s, const struct config_node *when, struct err *e);

void space_free(struct space *s);
AUTO_DEFINE(space, struct space *, space_free)

/* Adds constraints (constraint.h), a list of expressions over the names of parameters, dotted where
 * they are in groups; after space_add_conditions(). One that names a parameter which is not active
 * holds. -EINVAL  an expression is wrong (with its place in the list and LINE:COLUMN in it), or no
 * point meets all of them: none of up to 2^20 countable ones, else none of 100,000 draws. The one
 * that fails most is named. The space is then only fit for space_free() Cost: a test of each of up
 * to 2^20 points, and 4 bytes for each that is allowed. */
int space_add_constraints(struct space *s, const struct config_node *list, struct err *e);

/* Whether the constraints allow the point at u; true without any. No allocation; some 100 ns for a
 * simple constraint. */
bool space_allows(const struct space *s, const double *u);

/* A point by chance that the constraints allow. Where fewer than one in 10,000 are, it lies near
 * one that is known. */
void space_draw(const struct space *s, struct rng *r, double *u);

/* Parameters that vary; constants do not count. */
size_t space_dims(const struct space *s);
/* Borrowed; i < space_dims(). */
const struct distribution *space_distribution(const struct space *s, size_t i);
/* Its name, dotted where it is in a group: optimizer.lr. Borrowed. */
const char *space_name(const struct space *s, size_t i);

/* The point at u[0 … dims - 1] of the unit cube: a new reference. */
json_t *space_sample(const struct space *s, const double *u);

/* Moves u[0 … dims - 1] to where space_unit(space_sample(u)) is, so that equal points have equal u.
 * active[0 … dims - 1] (may be NULL): which parameters are. No allocation; the cost is that of
 * distribution_snap() and some 10 ns for each condition. */
void space_snap(const struct space *s, double *u, bool *active);

/* The other way: u[0 … dims - 1] of params; the middle where many u give the same value.
 *   -EINVAL  a parameter is missing, unknown, not active, or of a value that the space does not
 *            have (named) */
int space_unit(const struct space *s, const json_t *params, double *u, struct err *e);

/* Reads a parameter set that a person wrote: all but constants must be there. *out is a new
 * reference, in the space's order, constants filled in, multiples of q with all their digits
 * (distribution_exact()), unless a constraint holds for what was written alone.
 *   -EINVAL  as space_unit(), or it breaks a constraint; at the place in the file */
int space_params(json_t **out, const struct space *s, const struct config_node *n, struct err *e);

/* How many different points there are; INFINITY: not countable (or more than 2^53). Values of
 * parameters that are not active make no difference. With constraints only allowed ones count,
 * where there are up to 2^20 without them; else this is how many there are without. */
double space_count(const struct space *s);
/* The i-th of them; 0 <= i < space_count(). New reference; NULL: the constraints do not allow it
 * (only where there are more than 2^20). */
json_t *space_point(const struct space *s, double i);
/* Whether params are one of those points; false where they are not countable. */
bool space_has(const struct space *s, const json_t *params);

/* `parameters` as read, every distribution named; without conditions. New reference. */
json_t *space_json(const struct space *s);

#endif
