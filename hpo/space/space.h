/* space - the parameters of a sweep: random points, points by number, and conditions between
 * parameters.
 *
 * Parameters are ordered alphabetically at each level, independent of the file's order, or as in
 * their list. When points are numbered, the last parameter changes fastest. A parameter set
 * ("params") is a JSON object as a trial gets it, with an object for each group.
 *
 * A parameter may have conditions: it is active, that is part of a parameter set, only if other
 * parameters have certain values. The coordinate of an inactive parameter in the unit cube is 0.5.
 */
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

/* Reads `parameters`. With `grid`, points are those of `method: grid`, and a distribution without a
 * grid is an error. Appends to the strv `*notices`.
 *   -EINVAL  with the position in the file */
int space_read(struct space **out, const struct config_node *n, bool grid, char ***notices,
               struct err *e);

/* Reads the list form: items {"name", "type": "float" | "int" | "cat", "low", "high", "log",
 * "choices", "when"}, where `when` is a condition {"param", "in": [values]}, or a list of
 * conditions that must all hold. Appends to the strv `*notices`.
 *   -EINVAL  with the item's name: a duplicate name, a key that its type does not have, invalid
 *            bounds, a condition on an unknown parameter, on a float, on an impossible value, or
 *            that leads back to its own parameter */
int space_read_list(struct space **out, const struct config_node *list, char ***notices,
                    struct err *e);

/* Adds conditions to a space that space_read() returned: a mapping from the name of a parameter, or
 * of a group with all its parameters, to a condition or a list as above. Names in groups are
 * dotted: optimizer.lr.
 *   -EINVAL  as space_read_list(); afterwards only space_free() may be called */
int space_add_conditions(struct space *s, const struct config_node *when, struct err *e);

void space_free(struct space *s);
AUTO_DEFINE(space, struct space *, space_free)

/* Adds constraints (constraint.h): a list of expressions over parameter names, which are dotted in
 * groups. Call it after space_add_conditions(). A constraint that names an inactive parameter
 * holds.
 *   -EINVAL  an expression is wrong (with its position in the list and LINE:COLUMN in it), or no
 *            point satisfies all constraints: none of up to 2^20 countable points, or else none
 *            of 100,000 draws. The message names the constraint that fails most often.
 *            Afterwards only space_free() may be called
 * Cost: a test of each of up to 2^20 points, and 4 bytes for each allowed point. */
int space_add_constraints(struct space *s, const struct config_node *list, struct err *e);

/* Whether the constraints allow the point at u; true without constraints. Allocates nothing;
 * costs about 100 ns for a simple constraint. */
bool space_allows(const struct space *s, const double *u);

/* Draws a random point that the constraints allow. If fewer than one in 10,000 points are
 * allowed, it lies near a known one. */
void space_draw(const struct space *s, struct rng *r, double *u);

/* The number of parameters that vary, without constants. */
size_t space_dims(const struct space *s);
const struct distribution *space_distribution(const struct space *s, size_t i);
/* Its name, dotted in groups: optimizer.lr. Borrowed. */
const char *space_name(const struct space *s, size_t i);

/* The parameter set at u[0 … dims - 1] of the unit cube: a new reference. */
json_t *space_sample(const struct space *s, const double *u);

/* Moves u[0 … dims - 1] to space_unit(space_sample(u)), so that equal points have equal u.
 * active[0 … dims - 1] (may be NULL): whether the parameter is active. Allocates nothing; costs
 * distribution_snap() per parameter and about 10 ns per condition. */
void space_snap(const struct space *s, double *u, bool *active);

/* The inverse: u[0 … dims - 1] of a parameter set; the center if several u give the same value.
 *   -EINVAL  a parameter is missing, unknown or inactive, or the space does not have its value;
 *            the message names it */
int space_unit(const struct space *s, const json_t *params, double *u, struct err *e);

/* Reads a parameter set that a person wrote: all parameters except constants must be there. *out is
 * a new reference in the space's order, with constants filled in and multiples of q with all digits
 * (distribution_exact()), unless only the written values satisfy the constraints.
 *   -EINVAL  as space_unit(), or it violates a constraint; with the position in the file */
int space_params(json_t **out, const struct space *s, const struct config_node *n, struct err *e);

/* The same for a set that may lack parameters: these are drawn at random, always the same for one
 * seed. -EINVAL  as space_params(), or none of many random sets with these values is allowed */
int space_complete(json_t **out, const struct space *s, const struct config_node *n, uint64_t seed,
                   struct err *e);

/* The number of different points; INFINITY: not countable, or more than 2^53. Values of inactive
 * parameters make no difference. With constraints it counts the allowed points if there are up
 * to 2^20 points without them; otherwise it counts all points. */
double space_count(const struct space *s);
/* The i-th point; 0 <= i < space_count(). New reference; NULL: the constraints do not allow it
 * (only possible with more than 2^20 points). */
json_t *space_point(const struct space *s, double i);
/* Whether params are one of these points; false if they are not countable. */
bool space_has(const struct space *s, const json_t *params);

/* `parameters` as read, with the name of every distribution and without conditions. New
 * reference. */
json_t *space_json(const struct space *s);

#endif
