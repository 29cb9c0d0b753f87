#include "hpo/exchange/import_trials.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/strbuf.h"
#include "hpo/space/distribution.h"
#include "hpo/space/param_text.h"
#include "hpo/space/space.h"

/* A range whose ends differ by more than this factor is searched by the logarithm. */
static const double log_factor = 100;
static const double exact_max = 9007199254740992.0; /* 2^53 */

void import_trials_clear(struct import_trials *t)
{
    for (int i = 0; i < t->metric_count; i++)
        free(t->metrics[i].name);
    json_decref(t->parameters);
    json_decref(t->renamed);
    json_decref(t->outcomes);
    json_decref(t->trials);
    *t = (struct import_trials){0};
}

int import_trials_add_metric(struct import_trials *t, const char *name, bool maximize,
                             struct err *e)
{
    for (int i = 0; i < t->metric_count; i++)
        if (strcmp(t->metrics[i].name, name) == 0)
            return err_set(e, -EINVAL, "metric '%s': given twice", name);
    if (t->metric_count == SPEC_METRICS_MAX)
        return err_set(e, -EINVAL, "metric '%s': more than %d metrics", name, SPEC_METRICS_MAX);
    t->metrics[t->metric_count++] = (struct import_metric){xstrdup(name), maximize};
    return 0;
}

/* ---- the sweep file ------------------------------------------------------------------------- */

struct range {
    bool numbers, whole, integer; /* whole: no value has a fraction; integer: one is an integer */
    double low, high;
    json_t *values; /* the different ones by distribution_key(), in the order of their appearance */
};

static void add_value(struct range *r, json_t *value)
{
    double x = json_number_value(value);
    AUTO(free) char *key = distribution_key(value);
    if (!json_object_get(r->values, key))
        json_object_set(r->values, key, value);
    r->numbers = r->numbers && json_is_number(value) && fabs(x) < exact_max;
    r->whole = r->whole && x == rint(x);
    r->integer = r->integer || json_is_integer(value);
    r->low = fmin(r->low, x);
    r->high = fmax(r->high, x);
}

/* Numbers become a range, other values a list, one value a constant. */
static json_t *range_json(const struct range *r)
{
    AUTO(json) json_t *list = json_array();
    const char *key;
    json_t *value;
    json_object_foreach (r->values, key, value)
        json_array_append(list, value);
    if (json_array_size(list) == 1)
        return json_pack("{s:O}", "value", json_array_get(list, 0));
    if (!r->numbers)
        return json_pack("{s:O}", "values", list);
    bool wide = r->low > 0 && r->high / r->low > log_factor;
    if (r->whole && r->integer)
        return json_pack("{s:s, s:I, s:I}", "distribution",
                         wide ? "int_log_uniform" : "int_uniform", "min", (json_int_t)r->low, "max",
                         (json_int_t)r->high);
    return json_pack("{s:s, s:f, s:f}", "distribution", wide ? "log_uniform_values" : "uniform",
                     "min", r->low, "max", r->high);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* Returns a name that a sweep file allows (borrowed): other characters become '_'. Two names of the
 * other tool stay two. */
static const char *name_here(struct import_trials *t, const char *name, const json_t *siblings)
{
    if (space_name_ok(name))
        return name;
    json_t *known = json_object_get(t->renamed, name);
    if (known)
        return json_string_value(known);
    AUTO(strbuf) struct strbuf b = {0};
    if (!space_name_ok((const char[]){*name, 0}))
        strbuf_putc(&b, '_');
    for (const char *c = name; *c; c++)
        if (((unsigned char)*c & 0xC0) != 0x80) /* one '_' for a character of several bytes */
            strbuf_putc(&b, space_name_ok((const char[]){'_', *c, 0}) ? *c : '_');
    for (;; strbuf_putc(&b, '_')) {
        bool taken = json_object_get(siblings, strbuf_str(&b)) != NULL;
        const char *other;
        json_t *is;
        json_object_foreach (t->renamed, other, is)
            taken = taken || strcmp(json_string_value(is), strbuf_str(&b)) == 0;
        if (!taken)
            break;
    }
    t->renamed = t->renamed ? t->renamed : json_object();
    json_object_set_new(t->renamed, name, json_string(strbuf_str(&b)));
    return json_string_value(json_object_get(t->renamed, name));
}

/* Returns the members of `set` with names of name_here(), and values instead of texts (new
 * reference). `all`: the names of all trials. */
static json_t *clean_set(struct import_trials *t, const json_t *set, const json_t *all)
{
    json_t *out = json_object(), *value;
    const char *name;
    json_object_foreach ((json_t *)set, name, value) {
        json_t *read = NULL;
        const json_t *inner = json_object_get(all, name);
        if (json_object_size(inner) > 0)
            read = clean_set(t, value, inner);
        else if (!t->texts || !json_is_string(value) ||
                 param_text_value(&read, json_string_value(value), NULL) < 0)
            read = json_incref(value);
        json_object_set_new(out, name_here(t, name, all), read);
    }
    return out;
}

/* Adds the names of a set to `all`: a group's name has an object of its names, and another one an
 * empty object. A parameter is a group if all of its values are objects with members. */
static void add_names(json_t *all, const json_t *set)
{
    const char *name;
    json_t *value, *inner;
    json_object_foreach ((json_t *)set, name, value) {
        json_t *known = json_object_get(all, name);
        bool group = json_object_size(value) > 0 && (!known || json_object_size(known) > 0);
        if (!group || !known)
            json_object_set_new(all, name, json_object());
        inner = json_object_get(all, name);
        if (group)
            add_names(inner, value);
    }
}

static json_t *find_parameters(const json_t *known, const json_t *sets);

/* The parameter `name`: as the other tool describes it, or as its values do. */
static json_t *find_parameter(const json_t *known, const json_t *sets, const char *name)
{
    AUTO(json) json_t *groups = json_array(), *values = json_object();
    struct range r = {true, true, false, INFINITY, -INFINITY, values};
    bool grouped = true;
    size_t i;
    json_t *set;
    json_array_foreach (sets, i, set) {
        json_t *value = json_object_get(set, name);
        if (json_object_size(value) > 0)
            json_array_append(groups, value);
        else if (value)
            grouped = false;
        if (value)
            add_value(&r, value);
    }
    json_t *of = json_object_get(known, name);
    if (grouped)
        return json_pack("{s:o}", "parameters",
                         find_parameters(json_object_get(of, "parameters"), groups));
    return of ? json_incref(of) : range_json(&r);
}

static json_t *find_parameters(const json_t *known, const json_t *sets)
{
    json_t *all = json_object(), *set, *value;
    size_t i;
    const char *name;
    json_array_foreach (sets, i, set)
        json_object_foreach (set, name, value)
            if (!json_object_get(all, name))
                json_object_set_new(all, name, find_parameter(known, sets, name));
    return all;
}

static json_t *metric_json(const struct import_metric *m)
{
    return json_pack("{s:s, s:s}", "name", m->name, "goal", m->maximize ? "maximize" : "minimize");
}

/* Appends "key: value" in YAML's flow style, which is JSON. */
static void add_key(struct strbuf *b, const char *key, const json_t *value)
{
    AUTO(free) char *text = json_line(value);
    strbuf_printf(b, "%s: %s\n", key, text);
}

static void write_file(char **out, const struct import_trials *t, const char *name,
                       const json_t *parameters, const json_t *metrics)
{
    AUTO(strbuf) struct strbuf b = {0};
    const char *key;
    json_t *of;
    strbuf_printf(&b, "name: \"%s\"\nprogram: \"true\"\nmethod: random\nrun_cap: %zu\n", name,
                  json_array_size(t->trials));
    if (t->metric_count == 1)
        add_key(&b, "metric", json_array_get(metrics, 0));
    else
        add_key(&b, "metrics", metrics);
    AUTO(json)
    json_t *own = json_pack("{s:s, s:O*}", "value", t->value_best ? "best" : "last",
                            "outcome_constraints", t->outcomes);
    add_key(&b, "drover", own);
    strbuf_puts(&b, "parameters:\n");
    json_object_foreach ((json_t *)parameters, key, of) {
        AUTO(json) json_t *name_of = json_string(key);
        AUTO(free) char *quoted = json_line(name_of);
        strbuf_puts(&b, "  ");
        add_key(&b, quoted, of);
    }
    *out = strbuf_take(&b);
}

int import_trials_file(char **out, struct import_trials *t, const char *name, struct err *e)
{
    AUTO(json) json_t *sets = json_array(), *metrics = json_array(), *names = json_object();
    size_t i;
    json_t *trial;
    json_array_foreach (t->trials, i, trial)
        add_names(names, json_object_get(trial, "params"));
    json_array_foreach (t->trials, i, trial) {
        json_t *set = clean_set(t, json_object_get(trial, "params"), names);
        json_object_set_new(trial, "params", set);
        json_array_append(sets, set);
    }
    AUTO(json) json_t *known = clean_set(t, t->parameters, names);
    AUTO(json) json_t *parameters = find_parameters(known, sets);
    const char *missing = json_array_size(t->trials) == 0     ? "trial that has ended"
                          : t->metric_count == 0              ? "metric"
                          : json_object_size(parameters) == 0 ? "parameter"
                                                              : NULL;
    if (missing)
        return err_set(e, -ENODATA, "there is no %s to import", missing);
    for (int k = 0; k < t->metric_count; k++)
        json_array_append_new(metrics, metric_json(&t->metrics[k]));
    write_file(out, t, name, parameters, metrics);
    return 0;
}
