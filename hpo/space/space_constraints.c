/* space_constraints - constraints, which decide if a point is allowed. */
#include <errno.h>
#include <stdlib.h>

#include "common/json.h"
#include "hpo/space/constraint.h"
#include "hpo/space/space_internal.h"

enum {
    /* up to this many points are tested one by one, and the allowed ones are listed */
    INDEX_MAX = 1 << 20,
    SEARCH_MAX = 100000, /* number of draws after which a space counts as empty */
    DRAWS_MAX = 10000,
    /* draws before a listed point is drawn, if allowed points are listed */
    INDEXED_DRAWS_MAX = 256,
};

/* ---- values --------------------------------------------------------------------------------- */

static struct constraint_value of_json(const json_t *v)
{
    if (json_is_number(v))
        return (struct constraint_value){.type = CONSTRAINT_NUMBER, .number = json_number_value(v)};
    if (json_is_boolean(v))
        return (struct constraint_value){.type = CONSTRAINT_BOOL, .number = json_is_true(v)};
    if (json_is_string(v))
        return (struct constraint_value){.type = CONSTRAINT_STRING, .text = json_string_value(v)};
    return (struct constraint_value){.type = CONSTRAINT_OTHER};
}

static enum constraint_type type_of(const struct distribution *d)
{
    enum constraint_type type = CONSTRAINT_NUMBER;
    for (size_t i = 0; d->kind <= DISTRIBUTION_CATEGORICAL && i < json_array_size(d->values); i++) {
        enum constraint_type one = of_json(json_array_get(d->values, i)).type;
        if (i > 0 && one != type)
            return CONSTRAINT_NONE; /* mixed types */
        type = one;
    }
    return type;
}

/* Sets `*out` to the value of parameter p. Returns false if p is not active. */
static bool value_of(struct constraint_value *out, const struct space *s, size_t p,
                     const struct space_coords *at)
{
    const struct distribution *d = s->params[p].distribution;
    size_t dim = s->params[p].dim;
    if (at->values) {
        *out = of_json(at->values[p]);
        return at->values[p] != NULL;
    }
    if (at->indices ? at->indices[p] < 0 : !space_is_active(s, p, at->u))
        return false;
    double u = !at->indices && dim != SIZE_MAX ? at->u[dim] : 0;
    if (d->kind <= DISTRIBUTION_CATEGORICAL) {
        size_t i = (size_t)(at->indices ? at->indices[p] : distribution_index(d, u));
        *out = of_json(json_array_get(d->values, i));
    } else if (at->indices) {
        AUTO(json) json_t *v = space_value(s, p, at->indices[p]);
        *out = of_json(v);
    } else {
        *out = (struct constraint_value){.type = CONSTRAINT_NUMBER,
                                         .number = distribution_number(d, u)};
    }
    return true;
}

static bool holds(const struct space *s, const struct constraint *c, const struct space_coords *at)
{
    struct constraint_value values[CONSTRAINT_NAMES_MAX];
    size_t count = 0;
    const size_t *params = constraint_names(c, &count);
    for (size_t i = 0; i < count; i++)
        if (!value_of(&values[i], s, params[i], at))
            return true;
    return constraint_holds(c, values);
}

const struct constraint *space_violated(const struct space *s, const struct space_coords *at)
{
    for (size_t i = 0; i < s->constraint_count; i++)
        if (!holds(s, s->constraints[i], at))
            return s->constraints[i];
    return NULL;
}

bool space_allows(const struct space *s, const double *u)
{
    return !space_violated(s, &(struct space_coords){.u = u});
}

/* ---- adding constraints --------------------------------------------------------------------- */

static int read_constraints(struct space *s, const struct config_node *list, struct err *e)
{
    AUTO(free) struct constraint_name *names = xcalloc(s->count, sizeof *names);
    for (size_t i = 0; i < s->count; i++)
        names[i] = (struct constraint_name){s->params[i].path, type_of(s->params[i].distribution)};
    s->constraints = xcalloc(json_array_size(list->value), sizeof(struct constraint *));
    for (size_t i = 0; i < json_array_size(list->value); i++) {
        struct config_node at = config_node_item(list, i);
        const char *text = json_string_value(at.value);
        struct err cause = {0};
        if (!text)
            return config_node_error(&at, e, "a constraint must be a string, not %s",
                                     json_type_name(at.value));
        if (constraint_read(&s->constraints[s->constraint_count], text, names, s->count, &cause) <
            0) {
            config_node_error(&at, e, "constraint '%.100s': %s", text, cause.text);
            return cause.hint[0] ? err_hint(e, "%s", cause.hint) : -EINVAL;
        }
        s->constraint_count++;
    }
    return 0;
}

/* Returns true if the point is allowed. Adds 1 to violated[i] for each constraint i that the point
 * violates. */
static bool try_point(const struct space *s, const struct space_coords *at, size_t *violated)
{
    bool ok = true;
    for (size_t i = 0; i < s->constraint_count; i++)
        if (!holds(s, s->constraints[i], at)) {
            violated[i]++;
            ok = false;
        }
    return ok;
}

/* Lists the allowed points in s->allowed. Returns false if there is none. */
static bool list_allowed(struct space *s, size_t *violated)
{
    size_t points = (size_t)space_count(s);
    AUTO(free) double *indices = xcalloc(s->count, sizeof *indices);
    s->allowed = xcalloc(points, sizeof *s->allowed);
    for (size_t i = 0; i < points; i++) {
        space_point_indices(indices, s, (double)i);
        if (try_point(s, &(struct space_coords){.indices = indices}, violated))
            s->allowed[s->allowed_count++] = (uint32_t)i;
    }
    return s->allowed_count > 0;
}

/* Searches an allowed point at random, always with the same seed, and stores it in s->example.
 * Returns false if none is found. */
static bool find_example(struct space *s, size_t *violated)
{
    struct rng r;
    rng_seed(&r, 0, 0);
    s->example = xcalloc(s->dims, sizeof *s->example);
    for (int draw = 0; draw < SEARCH_MAX; draw++) {
        for (size_t i = 0; i < s->dims; i++)
            s->example[i] = rng_unit(&r);
        if (try_point(s, &(struct space_coords){.u = s->example}, violated))
            return true;
    }
    return false;
}

int space_add_constraints(struct space *s, const struct config_node *list, struct err *e)
{
    if (!json_is_array(list->value)) {
        config_node_error(list, e, "'constraints' must be a list of expressions, not %s",
                          json_type_name(list->value));
        return err_hint(e, "constraints: [layers * width <= 4096]");
    }
    if (read_constraints(s, list, e) < 0)
        return -EINVAL;
    AUTO(free) size_t *violated = xcalloc(s->constraint_count + 1, sizeof *violated);
    double points = space_count(s);
    bool few = points <= INDEX_MAX;
    if (s->constraint_count == 0 || (few ? list_allowed(s, violated) : find_example(s, violated)))
        return 0;
    size_t worst = 0;
    for (size_t i = 1; i < s->constraint_count; i++)
        worst = violated[i] > violated[worst] ? i : worst;
    struct config_node at = config_node_item(list, worst);
    return config_node_error(&at, e, "%s; '%.100s' fails most often: at %zu of %.0f points",
                             few ? "no point satisfies the constraints"
                                 : "found no point that satisfies the constraints",
                             constraint_text(s->constraints[worst]), violated[worst],
                             few ? points : SEARCH_MAX);
}

/* ---- random points -------------------------------------------------------------------------- */

/* Draws one of the listed points, all with the same probability. */
static void draw_listed(const struct space *s, struct rng *r, double *u)
{
    AUTO(free) double *indices = xcalloc(s->count, sizeof *indices);
    space_point_indices(indices, s, s->allowed[rng_below(r, s->allowed_count)]);
    for (size_t i = 0; i < s->dims; i++) {
        size_t p = s->by_dim[i];
        AUTO(json) json_t *v = indices[p] < 0 ? NULL : space_value(s, p, indices[p]);
        u[i] = v ? distribution_unit(s->params[p].distribution, v) : 0.5;
    }
}

void space_draw(const struct space *s, struct rng *r, double *u)
{
    for (int draw = 0; draw < (s->allowed ? INDEXED_DRAWS_MAX : DRAWS_MAX); draw++) {
        for (size_t i = 0; i < s->dims; i++)
            u[i] = rng_unit(r);
        if (space_allows(s, u))
            return;
    }
    if (s->allowed) {
        draw_listed(s, r, u);
        return;
    }
    for (int halving = 0; !space_allows(s, u);
         halving++) /* halves the distance to the example; after 60 halvings it is 0 */
        for (size_t i = 0; i < s->dims; i++)
            u[i] = halving < 60 ? u[i] / 2 + s->example[i] / 2 : s->example[i];
}
