/* space_conditions - conditions, which make the activity of a parameter depend on the values of
 * others. */
#include <errno.h>
#include <math.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/opt.h"
#include "hpo/space/space_internal.h"

enum { CONDITIONS_MAX = 64 }; /* limit per parameter, including inherited conditions */

static int compare_reals(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

bool space_condition_holds(const struct space_condition *c, double index)
{
    return bsearch(&index, c->in, c->in_count, sizeof index, compare_reals) != NULL;
}

bool space_is_active(const struct space *s, size_t p, const double *u)
{
    const struct space_condition *c = s->params[p].conditions,
                                 *end = c + s->params[p].condition_count;
    for (; c < end; c++) {
        const struct space_param *parent = &s->params[c->parent];
        double at = u[parent->dim];
        if (isnan(at) || !space_condition_holds(c, distribution_index(parent->distribution, at)))
            return false;
    }
    return true;
}

char *space_inactive_reason(const struct space *s, size_t p, const double *u)
{
    const struct space_condition *c = s->params[p].conditions;
    const struct space_param *parent = &s->params[c->parent];
    while (!isnan(u[parent->dim]) &&
           space_condition_holds(c, distribution_index(parent->distribution, u[parent->dim])))
        parent = &s->params[(++c)->parent];
    AUTO(json) json_t *in = json_array();
    for (size_t i = 0; i < c->in_count; i++)
        json_array_append_new(in, distribution_value(parent->distribution, c->in[i]));
    AUTO(free) char *text = json_line(in);
    return xasprintf("it is active only if '%s' is in %s", parent->path, text);
}

/* ---- reading -------------------------------------------------------------------------------- */

int space_find_param(size_t *out, const struct space *s, const char *path,
                     const struct config_node *n, struct err *e)
{
    const json_t *at = json_object_get(s->by_path, path);
    if (at && json_integer_value(at) < 0)
        return config_node_error(n, e, "'%s' is ambiguous: several parameters have this name",
                                 path);
    if (!at) {
        AUTO(free) const char **paths = xcalloc(s->count, sizeof *paths);
        for (size_t i = 0; i < s->count; i++)
            paths[i] = s->params[i].path;
        config_node_error(n, e, "unknown parameter '%s'", path);
        const char *near = opt_suggest(path, paths, s->count);
        return near ? err_hint(e, "%s", near) : -EINVAL;
    }
    *out = (size_t)json_integer_value(at);
    return 0;
}

static int read_values(struct space_condition *c, const struct space_param *parent,
                       const struct config_node *list, struct err *e)
{
    if (json_array_size(list->value) == 0) {
        AUTO(free) char *text = list->value ? json_line(list->value) : xstrdup("…");
        config_node_error(list, e, "'in' must be a list of at least one value");
        return json_is_array(list->value) ? -EINVAL : err_hint(e, "in: [%s]", text);
    }
    c->in = xcalloc(json_array_size(list->value), sizeof *c->in);
    for (size_t i = 0; i < json_array_size(list->value); i++) {
        struct config_node at = config_node_item(list, i);
        double u = distribution_unit(parent->distribution, at.value);
        if (isnan(u)) {
            AUTO(free) char *text = json_line(at.value);
            return config_node_error(&at, e, "'%s' never has the value %s", parent->path, text);
        }
        double index = distribution_index(parent->distribution, u);
        if (!lfind(&index, c->in, &c->in_count, sizeof index, compare_reals))
            c->in[c->in_count++] = index;
    }
    qsort(c->in, c->in_count, sizeof *c->in, compare_reals);
    return 0;
}

static int read_condition(struct space *s, size_t p, const struct config_node *n, struct err *e)
{
    static const char *const keys[] = {"param", "in"};
    struct config_node name = config_node_member(n, "param"), list = config_node_member(n, "in");
    struct space_param *child = &s->params[p];
    size_t parent = 0;
    if (config_node_only_keys(n, keys, COUNT_OF(keys), "a condition", e) < 0)
        return -EINVAL;
    if (!json_is_string(name.value)) {
        config_node_error(n, e, "a condition needs 'param', the name of a parameter");
        return err_hint(e, "{param: solver, in: [sgd]}");
    }
    if (space_find_param(&parent, s, json_string_value(name.value), &name, e) < 0)
        return -EINVAL;
    if (s->params[parent].distribution->kind > DISTRIBUTION_INT_LOG)
        return config_node_error(
            &name, e, "'%s' cannot depend on '%s': it is neither categorical nor an integer",
            child->path, s->params[parent].path);
    child->own_conditions = xrealloc(child->own_conditions, child->own_condition_count + 1,
                                     sizeof *child->own_conditions);
    child->own_conditions[child->own_condition_count] = (struct space_condition){.parent = parent};
    return read_values(&child->own_conditions[child->own_condition_count++], &s->params[parent],
                       &list, e);
}

int space_read_conditions(struct space *s, size_t p, const struct config_node *n, struct err *e)
{
    if (!json_is_array(n->value))
        return read_condition(s, p, n, e);
    for (size_t i = 0; i < json_array_size(n->value); i++) {
        struct config_node at = config_node_item(n, i);
        if (read_condition(s, p, &at, e) < 0)
            return -EINVAL;
    }
    return 0;
}

/* Returns true if group g is the group `in` or is nested in it. */
static bool is_within(const struct space *s, size_t g, size_t in)
{
    while (g > in)
        g = s->groups[g].parent;
    return g == in;
}

int space_add_conditions(struct space *s, const struct config_node *when, struct err *e)
{
    if (!json_is_object(when->value)) {
        config_node_error(when, e, "'when' must be a mapping, not %s", json_type_name(when->value));
        return err_hint(e, "when: {momentum: {param: solver, in: [sgd]}}");
    }
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach ((json_t *)when->value, name,
                         value) { /* the macro rejects const pointers */
        struct config_node at = config_node_member(when, name);
        size_t p = 0, g = 1;
        while (g < s->group_count && strcmp(s->groups[g].path, name) != 0)
            g++;
        bool group = g < s->group_count;
        if (!group && space_find_param(&p, s, name, &at, e) < 0)
            return -EINVAL;
        for (size_t i = group ? 0 : p; i < (group ? s->count : p + 1); i++)
            if ((!group || is_within(s, s->params[i].group, g)) &&
                space_read_conditions(s, i, &at, e) < 0)
                return -EINVAL;
    }
    return space_finish(s, when, e);
}

/* ---- inherited conditions ------------------------------------------------------------------- */

enum mark { NEW, OPEN, CLOSED };

static int add_condition(struct space_param *p, const struct space_condition *c,
                         const struct config_node *n, struct err *e)
{
    for (size_t i = 0; i < p->condition_count; i++)
        if (p->conditions[i].in == c->in)
            return 0; /* already inherited from another parameter */
    if (p->condition_count == CONDITIONS_MAX)
        return config_node_error(n, e, "'%s' depends on more than %d conditions", p->path,
                                 CONDITIONS_MAX);
    p->conditions[p->condition_count++] = *c;
    return 0;
}

/* Sets the conditions of parameter p: its own and those of its parents. A condition on a constant
 * always holds and is left out; the constant's own conditions are inherited. */
static int resolve_one(struct space *s, size_t p, int depth, enum mark *marks,
                       const struct config_node *n, struct err *e)
{
    struct space_param *child = &s->params[p];
    if (marks[p] == CLOSED)
        return 0;
    if (marks[p] == OPEN)
        return config_node_error(n, e, "the conditions of '%s' form a cycle", child->path);
    if (depth > CONDITIONS_MAX)
        return config_node_error(n, e, "'%s': conditions are nested deeper than %d", child->path,
                                 CONDITIONS_MAX);
    marks[p] = OPEN;
    free(child->conditions);
    child->conditions =
        child->own_condition_count ? xcalloc(CONDITIONS_MAX, sizeof *child->conditions) : NULL;
    child->condition_count = 0;
    for (const struct space_condition *c = child->own_conditions;
         c < child->own_conditions + child->own_condition_count; c++) {
        const struct space_param *parent = &s->params[c->parent];
        if (resolve_one(s, c->parent, depth + 1, marks, n, e) < 0)
            return -EINVAL;
        for (size_t i = 0; i < parent->condition_count; i++)
            if (add_condition(child, &parent->conditions[i], n, e) < 0)
                return -EINVAL;
        if (parent->distribution->kind != DISTRIBUTION_CONSTANT &&
            add_condition(child, c, n, e) < 0)
            return -EINVAL;
    }
    marks[p] = CLOSED;
    return 0;
}

int space_resolve_conditions(struct space *s, const struct config_node *n, struct err *e)
{
    AUTO(free) enum mark *marks = xcalloc(s->count, sizeof *marks);
    for (size_t i = 0; i < s->count; i++)
        if (resolve_one(s, i, 0, marks, n, e) < 0)
            return -EINVAL;
    return 0;
}
