#include "hpo/search/space.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "hpo/search/dist.h"

/* A parameter: a distribution, or a group with a space of its own. */
struct item {
    char *name;
    struct dist *dist;   /* NULL: a group */
    struct space *group; /* NULL: a distribution */
};

struct space {
    struct item *items; /* in alphabetical order */
    size_t count;
    size_t dims;
    bool grid;
};

void space_free(struct space *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->count; i++) {
        free(s->items[i].name);
        dist_free(s->items[i].dist);
        space_free(s->items[i].group);
    }
    free(s->items);
    free(s);
}

/* ---- reading -----------------------------------------------------------------------------------
 */

/* ^[A-Za-z_][A-Za-z0-9_.-]*$, as W&B has it. */
static bool name_ok(const char *name)
{
    static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char others[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789.-";
    return strspn(name, first) > 0 && strspn(name, others) == strlen(name);
}

static size_t dims_of(const struct item *it)
{
    return it->group ? it->group->dims : it->dist->kind != DIST_CONSTANT;
}

static int read_item(struct item *it, const struct node *n, bool grid, char ***notices,
                     struct err *e)
{
    if (node_has(n, "parameters")) {
        static const char *const only[] = {"parameters"};
        struct node inner = node_member(n, "parameters");
        if (node_only_keys(n, only, 1, "a group of parameters", e) < 0)
            return -EINVAL;
        return space_read(&it->group, &inner, grid, notices, e);
    }
    if (dist_read(&it->dist, n, notices, e) < 0)
        return -EINVAL;
    if (!grid || dist_grid_count(it->dist) > 0)
        return 0;
    node_error(n, e, "method grid has no points for '%s'%s", it->dist->name,
               it->dist->weighted ? " with probabilities" : "");
    return err_hint(e, "values: […], int_uniform or q_uniform; or method: random");
}

static int compare_items(const void *a, const void *b)
{
    return strcmp(((const struct item *)a)->name, ((const struct item *)b)->name);
}

int space_read(struct space **out, const struct node *n, bool grid, char ***notices, struct err *e)
{
    size_t count = json_object_size(n->value);
    if (count == 0)
        return node_error(n, e, "'parameters' must be a mapping with at least one parameter");
    AUTO(space) struct space *s = xzalloc(sizeof *s);
    s->grid = grid;
    s->items = xcalloc(count, sizeof *s->items);
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach ((json_t *)n->value, name, value) { /* only reads, but takes no const */
        struct node at = node_member(n, name);
        if (!name_ok(name))
            return node_error(
                &at, e, "'%s' is no name for a parameter: letters, digits, '_', '.', '-'", name);
        struct item *it = &s->items[s->count++];
        it->name = xstrdup(name);
        if (read_item(it, &at, grid, notices, e) < 0)
            return -EINVAL;
        s->dims += dims_of(it);
    }
    qsort(s->items, s->count, sizeof *s->items, compare_items);
    if (grid && space_count(s) > 9007199254740992.0)
        return node_error(n, e, "the grid has more than 2^53 points");
    *out = TAKE(s);
    return 0;
}

/* ---- points of the cube ------------------------------------------------------------------------
 */

size_t space_dims(const struct space *s)
{
    return s->dims;
}

const struct dist *space_dist(const struct space *s, size_t i)
{
    for (const struct item *it = s->items; it < s->items + s->count; it++) {
        if (i < dims_of(it))
            return it->group ? space_dist(it->group, i) : it->dist;
        i -= dims_of(it);
    }
    return NULL;
}

json_t *space_sample(const struct space *s, const double *u)
{
    json_t *params = json_object();
    for (const struct item *it = s->items; it < s->items + s->count; it++) {
        json_object_set_new(params, it->name,
                            it->group     ? space_sample(it->group, u)
                            : dims_of(it) ? dist_quantile(it->dist, *u)
                                          : dist_quantile(it->dist, 0));
        u += dims_of(it);
    }
    return params;
}

/* ---- parameter sets from outside ---------------------------------------------------------------
 */

static int unknown_names(const struct space *s, const struct node *n, struct err *e)
{
    AUTO(free) const char **names = xcalloc(s->count, sizeof *names);
    for (size_t i = 0; i < s->count; i++)
        names[i] = s->items[i].name;
    return node_only_keys(n, names, s->count, "a set of parameters", e);
}

/* One value of a parameter set: taken over into `params`, its place in the cube to u (may be NULL).
 */
static int take_value(json_t *params, double *u, const struct item *it, const struct node *n,
                      struct err *e)
{
    bool constant = it->dist->kind == DIST_CONSTANT;
    struct node at = node_member(n, it->name);
    if (!at.value && !constant)
        return node_error(n, e, "the parameter '%s' is missing", it->name);
    double x = at.value ? dist_unit(it->dist, at.value) : 0.5;
    if (!(x >= 0)) {
        AUTO(free) char *text = json_line(at.value);
        return node_error(&at, e, "'%s' cannot be %s: the distribution does not give it", it->name,
                          text);
    }
    json_object_set_new(params, it->name,
                        at.value ? json_incref((json_t *)at.value) : dist_quantile(it->dist, 0));
    if (u && !constant)
        *u = x;
    return 0;
}

static int take(json_t **out, double *u, const struct space *s, const struct node *n, struct err *e)
{
    if (unknown_names(s, n, e) < 0)
        return -EINVAL;
    AUTO(json) json_t *params = json_object();
    for (const struct item *it = s->items; it < s->items + s->count; it++) {
        struct node at = node_member(n, it->name);
        json_t *group = NULL;
        if (!it->group) {
            if (take_value(params, u, it, n, e) < 0)
                return -EINVAL;
        } else if (!at.value && dims_of(it) > 0) {
            return node_error(n, e, "the group '%s' is missing", it->name);
        } else if (!at.value) {
            json_object_set_new(params, it->name, space_sample(it->group, u));
        } else if (take(&group, u, it->group, &at, e) < 0) {
            return -EINVAL;
        } else {
            json_object_set_new(params, it->name, group);
        }
        u = u ? u + dims_of(it) : NULL;
    }
    *out = TAKE(params);
    return 0;
}

int space_params(json_t **out, const struct space *s, const struct node *n, struct err *e)
{
    return take(out, NULL, s, n, e);
}

int space_unit(const struct space *s, const json_t *params, double *u, struct err *e)
{
    struct node n = node_of_json(params);
    AUTO(json) json_t *copy = NULL;
    AUTO(free) double *at = xcalloc(s->dims + 1, sizeof *at);
    if (take(&copy, at, s, &n, e) < 0)
        return -EINVAL;
    memcpy(u, at, s->dims * sizeof *at);
    return 0;
}

/* ---- counted points ----------------------------------------------------------------------------
 */

static double item_count(const struct space *s, const struct item *it)
{
    return it->group ? space_count(it->group)
           : s->grid ? dist_grid_count(it->dist)
                     : dist_count(it->dist);
}

double space_count(const struct space *s)
{
    double n = 1;
    for (size_t i = 0; i < s->count; i++)
        n *= item_count(s, &s->items[i]);
    return n;
}

json_t *space_point(const struct space *s, double i)
{
    json_t *params = json_object();
    double rest = space_count(s);
    for (const struct item *it = s->items; it < s->items + s->count; it++) {
        rest /= item_count(s, it);
        double digit = floor(i / rest);
        i -= digit * rest;
        json_object_set_new(params, it->name,
                            it->group ? space_point(it->group, digit)
                            : s->grid ? dist_grid_value(it->dist, digit)
                                      : dist_value(it->dist, digit));
    }
    return params;
}

bool space_has(const struct space *s, const json_t *params)
{
    for (const struct item *it = s->items; it < s->items + s->count; it++) {
        const json_t *value = json_object_get(params, it->name);
        if (it->group ? !space_has(it->group, value) : !dist_has(it->dist, value, s->grid))
            return false;
    }
    return true;
}

json_t *space_json(const struct space *s)
{
    json_t *o = json_object();
    for (const struct item *it = s->items; it < s->items + s->count; it++)
        json_object_set_new(o, it->name,
                            it->group ? json_pack("{s:o}", "parameters", space_json(it->group))
                                      : dist_json(it->dist));
    return o;
}
