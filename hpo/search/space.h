/* space - the parameters of a sweep together: points of it, by chance or by number.
 *
 * Parameters are taken in alphabetical order at each level, whatever the file's order; the last
 * one moves fastest when points are counted. A parameter set ("params") is a JSON object as a
 * trial gets it, with an object for each group. */
#ifndef DROVER_SPACE_H
#define DROVER_SPACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/search/node.h"

struct dist;
struct space;

/* Reads `parameters`. With `grid`, points are those of `method: grid`, and a distribution that has
 * none is an error. Appends to the strv `*notices`.
 *   -EINVAL  at the place in the file */
int space_read(struct space **out, const struct node *n, bool grid, char ***notices, struct err *e);
void space_free(struct space *s);
AUTO_DEFINE(space, struct space *, space_free)

/* Parameters that vary; constants do not count. */
size_t space_dims(const struct space *s);
/* Borrowed; i < space_dims(). */
const struct dist *space_dist(const struct space *s, size_t i);

/* The point at u[0 … dims - 1] of the unit cube: a new reference. */
json_t *space_sample(const struct space *s, const double *u);

/* The other way: u[0 … dims - 1] of params; the middle where many u give the same value.
 *   -EINVAL  a parameter is missing, unknown, or of a value that the space does not have (named) */
int space_unit(const struct space *s, const json_t *params, double *u, struct err *e);

/* Reads a parameter set that a person wrote: all but constants must be there. *out is a new
 * reference, in the space's order, constants filled in.
 *   -EINVAL  as space_unit(), at the place in the file */
int space_params(json_t **out, const struct space *s, const struct node *n, struct err *e);

/* How many different points there are; INFINITY: not countable (or more than 2^53). */
double space_count(const struct space *s);
/* The i-th of them; 0 <= i < space_count(). New reference. */
json_t *space_point(const struct space *s, double i);
/* Whether params are one of those points; false where they are not countable. */
bool space_has(const struct space *s, const json_t *params);

/* `parameters` as read, every distribution named. New reference. */
json_t *space_json(const struct space *s);

#endif
