#include "hpo/space/space.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "hpo/space/constraint.h"
#include "hpo/space/space_internal.h"

enum {
    DEPTH_MAX = 64,        /* limit on the nesting of groups */
    COMPLETE_DRAWS = 10000 /* number of draws in space_complete() */
};

void space_free(struct space *s)
{
    if (!s)
        return;
    for (struct space_param *p = s->params; p < s->params + s->count; p++) {
        free(p->name);
        free(p->path);
        distribution_free(p->distribution);
        for (size_t i = 0; i < p->own_condition_count; i++)
            free(p->own_conditions[i].in);
        free(p->own_conditions);
        free(p->conditions);
    }
    for (struct space_group *g = s->groups; g < s->groups + s->group_count; g++) {
        free(g->name);
        free(g->path);
    }
    space_enumeration_free(s->enumeration);
    for (size_t i = 0; i < s->constraint_count; i++)
        constraint_free(s->constraints[i]);
    free(s->constraints);
    free(s->allowed);
    free(s->example);
    json_decref(s->by_path);
    free(s->params);
    free(s->groups);
    free(s->by_dim);
    free(s);
}

/* ---- reading -------------------------------------------------------------------------------- */

static char *path_of(const struct space *s, const char *name, size_t group)
{
    return group ? xasprintf("%s.%s", s->groups[group].path, name) : xstrdup(name);
}

static void add_param(struct space *s, const char *name, size_t group, struct distribution *d)
{
    s->params = xgrow(s->params, s->count, sizeof *s->params);
    struct space_param *p = &s->params[s->count++];
    *p = (struct space_param){.name = xstrdup(name),
                              .path = path_of(s, name, group),
                              .distribution = d,
                              .group = group,
                              .dim = SIZE_MAX};
    json_int_t at = json_object_get(s->by_path, p->path) ? -1 : (json_int_t)s->count - 1;
    json_object_set_new(s->by_path, p->path, json_integer(at));
}

static size_t add_group(struct space *s, const char *name, size_t parent)
{
    s->groups = xgrow(s->groups, s->group_count, sizeof *s->groups);
    s->groups[s->group_count] = (struct space_group){
        .name = xstrdup(name), .path = path_of(s, name, parent), .parent = parent};
    return s->group_count++;
}

static struct space *space_new(bool grid)
{
    struct space *s = xzalloc(sizeof *s);
    s->grid = grid;
    s->by_path = json_object();
    add_group(s, "", 0);
    return s;
}

int space_finish(struct space *s, const struct config_node *n, struct err *e)
{
    free(s->by_dim);
    s->by_dim = xcalloc(s->count + 1, sizeof *s->by_dim);
    s->dims = 0;
    for (size_t i = 0; i < s->count; i++)
        if (s->params[i].distribution->kind != DISTRIBUTION_CONSTANT) {
            s->params[i].dim = s->dims;
            s->by_dim[s->dims++] = i;
        }
    if (space_resolve_conditions(s, n, e) < 0)
        return -EINVAL;
    if (space_enumerate(s) < 0)
        return config_node_error(n, e, "the conditions have too many combinations to count");
    return 0;
}

bool space_name_ok(const char *name)
{
    static const char first[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
    static const char others[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789.-";
    return strspn(name, first) > 0 && strspn(name, others) == strlen(name);
}

static int read_param(struct space *s, const char *name, size_t group, const struct config_node *n,
                      char ***notices, struct err *e)
{
    AUTO(distribution) struct distribution *d = NULL;
    if (distribution_read(&d, n, notices, e) < 0)
        return -EINVAL;
    if (s->grid && !(distribution_grid_count(d) > 0)) {
        config_node_error(n, e, "method grid has no points for '%s'%s", d->name,
                          d->weighted ? " with probabilities" : "");
        return err_hint(e, "values: […], int_uniform or q_uniform; or method: random");
    }
    add_param(s, name, group, TAKE(d));
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int read_group(struct space *s, size_t group, int depth, const struct config_node *n,
                      char ***notices, struct err *e)
{
    static const char *const only[] = {"parameters"};
    size_t count = json_object_size(n->value), filled = 0;
    if (count == 0)
        return config_node_error(n, e,
                                 "'parameters' must be a mapping with at least one parameter");
    if (depth == DEPTH_MAX)
        return config_node_error(n, e, "groups are nested deeper than %d", DEPTH_MAX);
    AUTO(free) const char **names = xcalloc(count, sizeof *names);
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach ((json_t *)n->value, name, value) /* the macro rejects const pointers */
        names[filled++] = name;
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 0; i < count; i++) {
        struct config_node at = config_node_member(n, names[i]),
                           inner = config_node_member(&at, "parameters");
        if (!space_name_ok(names[i]))
            return config_node_error(
                &at, e, "invalid parameter name '%s': only letters, digits, '_', '.' and '-'",
                names[i]);
        if (!inner.value) {
            if (read_param(s, names[i], group, &at, notices, e) < 0)
                return -EINVAL;
            continue;
        }
        if (config_node_only_keys(&at, only, 1, "a group of parameters", e) < 0 ||
            read_group(s, add_group(s, names[i], group), depth + 1, &inner, notices, e) < 0)
            return -EINVAL;
    }
    return 0;
}

int space_read(struct space **out, const struct config_node *n, bool grid, char ***notices,
               struct err *e)
{
    AUTO(space) struct space *s = space_new(grid);
    if (read_group(s, 0, 0, n, notices, e) < 0 || space_finish(s, n, e) < 0)
        return -EINVAL;
    if (grid && isinf(space_count(s)))
        return config_node_error(n, e, "the grid has more than 2^53 points");
    *out = TAKE(s);
    return 0;
}

/* ---- the list form -------------------------------------------------------------------------- */

static int read_item(struct space *s, const char *name, const struct config_node *n, struct err *e)
{
    static const char *const keys[] = {"name", "type", "low", "high", "log", "choices", "when"};
    struct distribution *d = NULL;
    if (json_object_get(s->by_path, name))
        return config_node_error(n, e, "the name is used twice");
    if (config_node_only_keys(n, keys, COUNT_OF(keys), "a parameter", e) < 0 ||
        distribution_read_item(&d, n, e) < 0)
        return -EINVAL;
    add_param(s, name, 0, d);
    return 0;
}

int space_read_list(struct space **out, const struct config_node *list, struct err *e)
{
    AUTO(space) struct space *s = space_new(false);
    if (json_array_size(list->value) == 0)
        return config_node_error(list, e, "a space must be a list of at least one parameter");
    for (size_t i = 0; i < json_array_size(list->value); i++) {
        struct config_node at = config_node_item(list, i), name = config_node_member(&at, "name");
        if (json_string_length(name.value) == 0)
            return config_node_error(&at, e, "the 'name' of a parameter is missing");
        if (read_item(s, json_string_value(name.value), &at, e) < 0)
            return err_wrap(e, "parameter '%s'", json_string_value(name.value));
    }
    for (size_t i = 0; i < s->count; i++) {
        struct config_node item = config_node_item(list, i), at = config_node_member(&item, "when");
        if (at.value && space_read_conditions(s, i, &at, e) < 0)
            return err_wrap(e, "parameter '%s'", s->params[i].name);
    }
    if (space_finish(s, list, e) < 0)
        return -EINVAL;
    *out = TAKE(s);
    return 0;
}

/* ---- points of the cube --------------------------------------------------------------------- */

size_t space_dims(const struct space *s)
{
    return s->dims;
}

const struct distribution *space_distribution(const struct space *s, size_t i)
{
    return s->params[s->by_dim[i]].distribution;
}

const char *space_name(const struct space *s, size_t i)
{
    return s->params[s->by_dim[i]].path;
}

/* Returns the object of group g (borrowed); creates the object and its parents if necessary. `key`
 * as in space_assemble(). */
static json_t *object_of(const struct space *s, json_t **objects, size_t g, const char *key)
{
    if (!objects[g]) {
        objects[g] = json_object();
        json_object_set_new(object_of(s, objects, s->groups[g].parent, key), s->groups[g].name,
                            key ? json_pack("{s:o}", key, objects[g]) : objects[g]);
    }
    return objects[g];
}

json_t *space_assemble(const struct space *s, json_t **values, const char *key)
{
    AUTO(free) json_t **objects = xcalloc(s->group_count, sizeof(json_t *));
    objects[0] = json_object();
    for (size_t i = 0; i < s->count; i++)
        if (values[i])
            json_object_set_new(object_of(s, objects, s->params[i].group, key), s->params[i].name,
                                values[i]);
    return objects[0];
}

json_t *space_sample(const struct space *s, const double *u)
{
    AUTO(free) json_t **values = xcalloc(s->count, sizeof(json_t *));
    for (size_t i = 0; i < s->count; i++) {
        const struct space_param *p = &s->params[i];
        if (space_is_active(s, i, u))
            values[i] = distribution_quantile(p->distribution, p->dim == SIZE_MAX ? 0 : u[p->dim]);
    }
    return space_assemble(s, values, NULL);
}

void space_snap(const struct space *s, double *u, bool *active)
{
    /* A condition has the same result for u and for its snapped value, so coordinates may be moved
     * in any order. If the parent of a condition is not active, the parent's conditions fail. The
     * child inherits them, so it is not active either. */
    for (size_t i = 0; i < s->dims; i++) {
        bool on = space_is_active(s, s->by_dim[i], u);
        u[i] = on ? distribution_snap(space_distribution(s, i), u[i]) : 0.5;
        if (active)
            active[i] = on;
    }
}

json_t *space_json(const struct space *s)
{
    AUTO(free) json_t **values = xcalloc(s->count, sizeof(json_t *));
    for (size_t i = 0; i < s->count; i++)
        values[i] = distribution_json(s->params[i].distribution);
    return space_assemble(s, values, "parameters");
}

/* ---- parameter sets from outside ------------------------------------------------------------ */

/* Checks that all members are names of the space, and sets groups[g] to the node of group g. */
static int read_groups(struct config_node *groups, const struct space *s,
                       const struct config_node *n, struct err *e)
{
    AUTO(free) const char **names = xcalloc(s->count + s->group_count, sizeof *names);
    for (size_t g = 0; g < s->group_count; g++) {
        size_t count = 0;
        groups[g] = g ? config_node_member(&groups[s->groups[g].parent], s->groups[g].name) : *n;
        for (size_t i = 0; i < s->count; i++)
            if (s->params[i].group == g)
                names[count++] = s->params[i].name;
        for (size_t i = 1; i < s->group_count; i++)
            if (s->groups[i].parent == g)
                names[count++] = s->groups[i].name;
        if ((g == 0 || groups[g].value) &&
            config_node_only_keys(&groups[g], names, count, "a set of parameters", e) < 0)
            return -EINVAL;
    }
    return 0;
}

static int missing(const struct config_node *at, const char *what, const char *name, struct err *e)
{
    config_node_error(at, e, "the %s '%s' is missing", what, name);
    return -ENODATA;
}

/* Checks that an active parameter has a value that its distribution can have. A constant may be
 * missing.
 *   -ENODATA  the parameter has no value */
static int check_value(const struct space *s, const struct space_param *p,
                       const struct config_node *groups, struct err *e)
{
    size_t g = p->group;
    struct config_node at = config_node_member(&groups[g], p->name);
    if (!at.value && p->distribution->kind == DISTRIBUTION_CONSTANT)
        return 0;
    while (g && !groups[s->groups[g].parent].value)
        g = s->groups[g].parent;
    if (g && !groups[g].value)
        return missing(&groups[s->groups[g].parent], "group", s->groups[g].name, e);
    if (!at.value)
        return missing(&groups[g], "parameter", p->name, e);
    if (distribution_unit(p->distribution, at.value) >= 0)
        return 0;
    AUTO(free) char *text = json_line(at.value);
    return config_node_error(&at, e, "'%s' cannot be %s: the distribution does not give it",
                             p->name, text);
}

/* Reads a parameter set into values[0 … count - 1] (borrowed; NULL if not active) and u[0 … dims -
 * 1]. Overwrites both on failure, too. */
static int read_point(const json_t **values, double *u, const struct space *s,
                      const struct config_node *n, struct err *e)
{
    AUTO(free) struct config_node *groups = xcalloc(s->group_count, sizeof *groups);
    if (read_groups(groups, s, n, e) < 0)
        return -EINVAL;
    for (size_t i = 0; i < s->count; i++) {
        const struct space_param *p = &s->params[i];
        values[i] = json_object_get(groups[p->group].value, p->name);
        if (p->dim != SIZE_MAX)
            u[p->dim] = values[i] ? distribution_unit(p->distribution, values[i]) : NAN;
    }
    for (size_t i = 0; i < s->count; i++) {
        const struct space_param *p = &s->params[i];
        int rc = space_is_active(s, i, u) ? check_value(s, p, groups, e) : 0;
        if (rc < 0)
            return rc;
    }
    for (size_t i = 0; i < s->count; i++) {
        const struct space_param *p = &s->params[i];
        bool on = space_is_active(s, i, u);
        if (!on && values[i]) {
            struct config_node at = config_node_member(&groups[p->group], p->name);
            AUTO(free) char *why = space_inactive_reason(s, i, u);
            return config_node_error(&at, e, "'%s' is not part of this set: %s", p->name, why);
        }
        if (on && !values[i])
            /* the parameter is a constant */
            values[i] = json_array_get(p->distribution->values, 0);
    }
    for (size_t i = 0; i < s->dims; i++)
        u[i] = isnan(u[i]) ? 0.5 : u[i];
    return 0;
}

/* Implements space_params(). Also returns:
 *   -ENODATA  a parameter is missing */
static int read_set(json_t **out, const struct space *s, const struct config_node *n, struct err *e)
{
    AUTO(free) double *u = xcalloc(s->dims + 1, sizeof *u);
    AUTO(free) json_t **values = xcalloc(s->count, sizeof(json_t *));
    int rc = read_point((const json_t **)values, u, s, n, e);
    if (rc < 0)
        return rc;
    AUTO(free) json_t **exact = xcalloc(s->count, sizeof(json_t *));
    for (size_t i = 0; i < s->count; i++)
        exact[i] =
            values[i] ? distribution_exact(s->params[i].distribution, values[i], s->grid) : NULL;
    AUTO(json) json_t *set = space_assemble(s, exact, NULL);
    if (!space_violated(s, &(struct space_coords){.values = (const json_t *const *)exact})) {
        *out = TAKE(set);
        return 0;
    }
    const struct constraint *violated =
        space_violated(s, &(struct space_coords){.values = (const json_t *const *)values});
    if (violated)
        return config_node_error(n, e, "this set violates the constraint '%.200s'",
                                 constraint_text(violated));
    for (size_t i = 0; i < s->count; i++)
        values[i] = values[i] ? distribution_form(s->params[i].distribution, values[i]) : NULL;
    *out = space_assemble(s, values, NULL);
    return 0;
}

int space_params(json_t **out, const struct space *s, const struct config_node *n, struct err *e)
{
    return read_set(out, s, n, e) < 0 ? -EINVAL : 0;
}

int space_complete(json_t **out, const struct space *s, const struct config_node *n, uint64_t seed,
                   struct err *e)
{
    struct err why = {0};
    int rc = read_set(out, s, n, &why);
    AUTO(free) double *u = xcalloc(s->dims + 1, sizeof *u);
    struct rng r;
    rng_seed(&r, seed, 0);
    for (int i = 0; rc == -ENODATA && i < COMPLETE_DRAWS; i++) {
        space_draw(s, &r, u);
        AUTO(json) json_t *set = space_sample(s, u);
        json_object_update_recursive(set, (json_t *)n->value); /* only reads n->value */
        struct config_node at = config_node_of_json(set);
        rc = space_params(out, s, &at, &why) == 0 ? 0 : -ENODATA;
    }
    if (rc == -ENODATA)
        return config_node_error(n, e, "no set of parameters has these values: %s", why.text);
    if (rc < 0 && e)
        *e = why;
    return rc;
}

json_t *space_form(const struct space *s, const json_t *params)
{
    AUTO(free) const json_t **groups = xcalloc(s->group_count, sizeof *groups);
    AUTO(free) json_t **values = xcalloc(s->count, sizeof(json_t *));
    groups[0] = params;
    for (size_t g = 1; g < s->group_count; g++)
        groups[g] = json_object_get(groups[s->groups[g].parent], s->groups[g].name);
    for (size_t i = 0; i < s->count; i++) {
        const struct space_param *p = &s->params[i];
        json_t *value = json_object_get(groups[p->group], p->name);
        values[i] = value ? distribution_form(p->distribution, value) : NULL;
    }
    return space_assemble(s, values, NULL);
}

int space_unit(const struct space *s, const json_t *params, double *u, struct err *e)
{
    struct config_node n = config_node_of_json(params);
    AUTO(free) double *at = xcalloc(s->dims + 1, sizeof *at);
    AUTO(free) const json_t **values = xcalloc(s->count, sizeof(json_t *));
    if (read_point(values, at, s, &n, e) < 0)
        return -EINVAL;
    memcpy(u, at, s->dims * sizeof *at);
    return 0;
}

bool space_has(const struct space *s, const json_t *params)
{
    struct config_node n = config_node_of_json(params);
    AUTO(free) double *u = xcalloc(s->dims + 1, sizeof *u);
    AUTO(free) const json_t **values = xcalloc(s->count, sizeof(json_t *));
    if (read_point(values, u, s, &n, NULL) < 0)
        return false;
    for (size_t i = 0; i < s->count; i++)
        if (values[i] && !distribution_has(s->params[i].distribution, values[i], s->grid))
            return false;
    return !space_violated(s, &(struct space_coords){.values = values});
}
