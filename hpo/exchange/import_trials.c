#include "hpo/exchange/import_trials.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/strbuf.h"

/* A range whose ends differ by more than this factor is searched by the logarithm. */
static const double log_factor = 100;

void import_trials_clear(struct import_trials *t)
{
    for (int i = 0; i < t->metric_count; i++)
        free(t->metrics[i].name);
    json_decref(t->parameters);
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
    bool numbers, whole;
    double low, high;
    json_t *values; /* the different ones, in the order of their appearance */
};

static void add_value(struct range *r, json_t *value)
{
    bool known = false;
    for (size_t i = 0; !known && i < json_array_size(r->values); i++)
        known = json_equal(json_array_get(r->values, i), value);
    if (!known && (!r->numbers || json_array_size(r->values) < 2 || !json_is_number(value)))
        json_array_append(r->values, value);
    if (!json_is_number(value)) {
        r->numbers = false;
        return;
    }
    r->whole = r->whole && json_is_integer(value);
    r->low = fmin(r->low, json_number_value(value));
    r->high = fmax(r->high, json_number_value(value));
}

/* Numbers become a range, other values a list, one value a constant. */
static json_t *range_json(const struct range *r)
{
    if (json_array_size(r->values) == 1)
        return json_pack("{s:O}", "value", json_array_get(r->values, 0));
    if (!r->numbers)
        return json_pack("{s:O}", "values", r->values);
    bool wide = r->low > 0 && r->high / r->low > log_factor;
    if (r->whole)
        return json_pack("{s:s, s:I, s:I}", "distribution",
                         wide ? "int_log_uniform" : "int_uniform", "min", (json_int_t)r->low, "max",
                         (json_int_t)r->high);
    return json_pack("{s:s, s:f, s:f}", "distribution", wide ? "log_uniform_values" : "uniform",
                     "min", r->low, "max", r->high);
}

static json_t *find_parameters(const json_t *known, const json_t *sets);

/* The parameter `name`: as the other tool describes it, or as its values do. */
static json_t *find_parameter(const json_t *known, const json_t *sets, const char *name)
{
    AUTO(json) json_t *groups = json_array(), *values = json_array();
    struct range r = {true, true, INFINITY, -INFINITY, values};
    size_t i;
    json_t *set;
    json_array_foreach (sets, i, set) {
        json_t *value = json_object_get(set, name);
        if (json_is_object(value))
            json_array_append(groups, value);
        else if (value)
            add_value(&r, value);
    }
    json_t *of = json_object_get(known, name);
    if (json_array_size(groups) > 0)
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
    strbuf_printf(&b, "drover: {value: %s}\nparameters:\n", t->value_best ? "best" : "last");
    json_object_foreach ((json_t *)parameters, key, of) {
        AUTO(json) json_t *name_of = json_string(key);
        AUTO(free) char *quoted = json_line(name_of);
        strbuf_puts(&b, "  ");
        add_key(&b, quoted, of);
    }
    *out = strbuf_take(&b);
}

int import_trials_file(char **out, const struct import_trials *t, const char *name, struct err *e)
{
    AUTO(json) json_t *sets = json_array(), *metrics = json_array();
    size_t i;
    json_t *trial;
    json_array_foreach (t->trials, i, trial)
        json_array_append(sets, json_object_get(trial, "params"));
    AUTO(json) json_t *parameters = find_parameters(t->parameters, sets);
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
