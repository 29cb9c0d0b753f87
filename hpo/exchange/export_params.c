#include "hpo/exchange/export_params.h"

#include <math.h>
#include <string.h>

#include "common/json.h"
#include "common/number_format.h"
#include "common/strbuf.h"
#include "hpo/space/distribution.h"
#include "hpo/space/space.h"

static const struct distribution *distribution_of(const struct spec *spec, const char *name)
{
    for (size_t i = 0; i < space_dims(spec->space); i++)
        if (strcmp(space_name(spec->space, i), name) == 0)
            return space_distribution(spec->space, i);
    return NULL;
}

/* The value as JSON text. */
static void add_text(struct strbuf *b, struct columns_value v, const struct sweep_columns *c)
{
    if (v.kind == COLUMNS_JSON)
        strbuf_puts(b, text_table_at(&c->texts, v.json));
    else if (v.kind == COLUMNS_INTEGER)
        strbuf_printf(b, "%.0f", v.number);
    else
        number_format(b, v.number);
}

/* What the values of all trials allow: a choice if one is not a number. Widens the range. */
static enum export_param_kind scan_values(struct export_param *p, const struct sweep_columns *c,
                                          size_t param)
{
    enum export_param_kind kind = EXPORT_PARAM_INTEGER;
    for (size_t i = 0; i < c->count; i++) {
        struct columns_value v = sweep_columns_value(c, param, i);
        if (v.kind == COLUMNS_JSON)
            return EXPORT_PARAM_CHOICE;
        if (v.kind == COLUMNS_ABSENT)
            continue;
        if (v.kind == COLUMNS_REAL)
            kind = EXPORT_PARAM_REAL;
        p->low = fmin(p->low, v.number);
        p->high = fmax(p->high, v.number);
    }
    return kind;
}

static void read_choices(struct export_param *p, const struct distribution *d,
                         const struct sweep_columns *c, size_t param)
{
    for (size_t i = 0; d && i < json_array_size(d->values); i++) {
        AUTO(free) char *text = json_line(json_array_get(d->values, i));
        text_table_add(&p->values, text, strlen(text));
    }
    for (size_t i = 0; i < c->count; i++) {
        struct columns_value v = sweep_columns_value(c, param, i);
        AUTO(strbuf) struct strbuf text = {0};
        if (v.kind == COLUMNS_ABSENT)
            continue;
        add_text(&text, v, c);
        text_table_add(&p->values, strbuf_str(&text), text.len);
    }
}

static struct export_param read_param(const struct spec *spec, const struct sweep_columns *c,
                                      size_t param)
{
    struct export_param p = {.name = c->params[param].name, .low = INFINITY, .high = -INFINITY};
    const struct distribution *d = distribution_of(spec, p.name);
    bool listed = d && (d->kind == DISTRIBUTION_CONSTANT || d->kind == DISTRIBUTION_CATEGORICAL);
    if (d && !listed && isfinite(d->lo) && isfinite(d->hi)) {
        p.low = d->lo;
        p.high = d->hi;
        p.log = d->kind == DISTRIBUTION_INT_LOG || d->kind == DISTRIBUTION_LOG_UNIFORM;
    }
    p.kind = scan_values(&p, c, param);
    if (d && p.kind == EXPORT_PARAM_INTEGER && !d->whole && d->kind > DISTRIBUTION_INT_LOG)
        p.kind = EXPORT_PARAM_REAL; /* whole by chance */
    if (listed || p.kind == EXPORT_PARAM_CHOICE) {
        p.kind = EXPORT_PARAM_CHOICE;
        read_choices(&p, listed ? d : NULL, c, param);
    }
    p.log = p.log && p.low > 0;
    if (d && d->kind == DISTRIBUTION_UNIFORM && d->q > 0 && remainder(p.low, d->q) == 0)
        p.step = d->q;
    return p;
}

struct export_params export_params_read(const struct spec *spec, const struct sweep_columns *c)
{
    struct export_params p = {.count = c->param_count};
    p.at = xcalloc(p.count, sizeof *p.at);
    for (size_t i = 0; i < p.count; i++)
        p.at[i] = read_param(spec, c, i);
    return p;
}

void export_params_clear(struct export_params *p)
{
    for (size_t i = 0; i < p->count; i++)
        text_table_clear(&p->at[i].values);
    free(p->at);
    *p = (struct export_params){0};
}

json_t *export_params_json(const struct export_param *p)
{
    static const char *const kinds[] = {"real", "integer", "choice"};
    json_t *o = json_pack("{s:s, s:s}", "name", p->name, "kind", kinds[p->kind]);
    if (p->kind != EXPORT_PARAM_CHOICE) {
        bool whole = p->kind == EXPORT_PARAM_INTEGER;
        json_object_set_new(o, "low", whole ? json_integer((json_int_t)p->low) : json_real(p->low));
        json_object_set_new(o, "high",
                            whole ? json_integer((json_int_t)p->high) : json_real(p->high));
        json_object_set_new(o, "log", json_boolean(p->log));
        if (p->step > 0)
            json_object_set_new(o, "step",
                                whole ? json_integer((json_int_t)p->step) : json_real(p->step));
        return o;
    }
    json_t *choices = json_array();
    for (size_t i = 0; i < p->values.count; i++)
        json_array_append_new(choices, json_loads(p->values.texts[i], JSON_DECODE_ANY, NULL));
    json_object_set_new(o, "choices", choices);
    return o;
}
