#include "hpo/exchange/exchange_lines.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "common/number_format.h"
#include "hpo/space/distribution.h"
#include "hpo/space/space.h"
#include "hpo/spec/spec_outcomes.h"

/* ---- parameters ----------------------------------------------------------------------------- */

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

enum kind { KIND_INTEGER, KIND_REAL, KIND_CHOICE };

/* Returns what the values of all trials allow: a choice if one is not a number. Widens the range.
 */
static enum kind scan_values(double *low, double *high, const struct sweep_columns *c, size_t param)
{
    enum kind kind = KIND_INTEGER;
    for (size_t i = 0; i < c->count; i++) {
        struct columns_value v = sweep_columns_value(c, param, i);
        if (v.kind == COLUMNS_JSON)
            return KIND_CHOICE;
        if (v.kind == COLUMNS_ABSENT)
            continue;
        if (v.kind == COLUMNS_REAL)
            kind = KIND_REAL;
        *low = fmin(*low, v.number);
        *high = fmax(*high, v.number);
    }
    return kind;
}

static void add_choice(json_t *by_text, const char *text)
{
    if (!json_object_get(by_text, text))
        json_object_set_new(by_text, text, json_loads(text, JSON_DECODE_ANY, NULL));
}

/* Returns the different values as a list (new reference). Values of `d`, or NULL, come first. */
static json_t *choices_of(const struct distribution *d, const struct sweep_columns *c, size_t param)
{
    AUTO(json) json_t *by_text = json_object();
    for (size_t i = 0; d && i < json_array_size(d->values); i++) {
        AUTO(free) char *text = json_line(json_array_get(d->values, i));
        add_choice(by_text, text);
    }
    for (size_t i = 0; i < c->count; i++) {
        struct columns_value v = sweep_columns_value(c, param, i);
        AUTO(strbuf) struct strbuf text = {0};
        if (v.kind == COLUMNS_ABSENT)
            continue;
        add_text(&text, v, c);
        add_choice(by_text, strbuf_str(&text));
    }
    json_t *list = json_array(), *value;
    const char *text;
    json_object_foreach (by_text, text, value)
        json_array_append(list, value);
    return list;
}

static json_t *number(double x, bool whole)
{
    return whole ? json_integer((json_int_t)x) : json_real(x);
}

/* Returns a parameter in the terms of other tools: a range of numbers, as wide as in the sweep file
 * and wider if a value lies outside, or a list of choices (new reference). */
static json_t *param_json(const struct spec *spec, const struct sweep_columns *c, size_t param)
{
    const char *name = c->params[param].name;
    const struct distribution *d = distribution_of(spec, name);
    bool listed = d && (d->kind == DISTRIBUTION_CONSTANT || d->kind == DISTRIBUTION_CATEGORICAL);
    bool ranged = d && !listed && isfinite(d->lo) && isfinite(d->hi);
    double low = ranged ? d->lo : INFINITY, high = ranged ? d->hi : -INFINITY;
    enum kind kind = scan_values(&low, &high, c, param);
    if (listed || kind == KIND_CHOICE)
        return json_pack("{s:s, s:s, s:o}", "name", name, "kind", "choice", "choices",
                         choices_of(listed ? d : NULL, c, param));
    bool by_chance = d && !d->whole && d->kind > DISTRIBUTION_INT_LOG;
    bool whole = kind == KIND_INTEGER && !by_chance;
    bool log = ranged && low > 0 &&
               (d->kind == DISTRIBUTION_INT_LOG || d->kind == DISTRIBUTION_LOG_UNIFORM);
    bool stepped = d && d->kind == DISTRIBUTION_UNIFORM && d->q > 0 && remainder(low, d->q) == 0;
    return json_pack("{s:s, s:s, s:o*, s:o*, s:b, s:o*}", "name", name, "kind",
                     whole ? "integer" : "real", "low", number(low, whole), "high",
                     number(high, whole), "log", log, "step", stepped ? number(d->q, whole) : NULL);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void set_time(json_t *o, const char *key, int64_t ms)
{
    if (ms > 0)
        json_object_set_new(o, key, json_integer(ms));
}

static json_t *trial_json(const struct sweep_columns *c, size_t trial)
{
    const struct columns_trial *t = &c->trials[trial];
    json_t *o = sweep_columns_trial_json(c, trial);
    json_object_set_new(o, "goals", spec_goals_json(c->spec));
    if (c->spec->outcomes.count > 0)
        json_object_set_new(o, "outcome_constraints", spec_outcomes_json(&c->spec->outcomes));
    set_time(o, "created_ms", t->created_ms);
    set_time(o, "leased_ms", t->leased_ms);
    set_time(o, "ended_ms", t->ended_ms);
    json_object_set_new(o, "curves", sweep_columns_curves_json(c, trial));
    return o;
}

json_t *exchange_lines_header(const struct sweep_reader *v)
{
    json_t *metrics = json_array(), *params = json_array();
    for (int i = 0; i < v->spec->metric_count; i++)
        json_array_append_new(metrics,
                              json_pack("{s:s?, s:s}", "name", v->spec->metrics[i].name, "goal",
                                        v->spec->metrics[i].maximize ? "maximize" : "minimize"));
    for (size_t i = 0; i < v->columns->param_count; i++)
        json_array_append_new(params, param_json(v->spec, v->columns, i));
    return json_pack("{s:s, s:s, s:o, s:o, s:o*}", "name", v->dir->name, "method",
                     v->spec->method->name, "metrics", metrics, "params", params,
                     "outcome_constraints", spec_outcomes_json(&v->spec->outcomes));
}

int exchange_lines_write(FILE *out, const struct sweep_columns *c)
{
    for (size_t i = 0; i < c->count; i++) {
        AUTO(json) json_t *t = trial_json(c, i);
        AUTO(free) char *line = json_line(t);
        if (fprintf(out, "%s\n", line) < 0)
            return -errno;
    }
    return fflush(out) == 0 ? 0 : -errno;
}

/* ---- reading -------------------------------------------------------------------------------- */

static int read_header(struct import_trials *out, size_t *unfinished, json_t *o, struct err *e)
{
    size_t i;
    json_t *m, *parameters = json_object_get(o, "parameters");
    int rc = 0;
    json_array_foreach (json_object_get(o, "metrics"), i, m) {
        const char *goal = json_string_value(json_object_get(m, "goal"));
        if (rc == 0)
            rc = import_trials_add_metric(out, json_string_value(json_object_get(m, "name")),
                                          goal && strcmp(goal, "maximize") == 0, e);
    }
    out->parameters = json_incref(parameters);
    out->texts = json_is_true(json_object_get(o, "texts"));
    *unfinished = (size_t)json_integer_value(json_object_get(o, "unfinished"));
    return rc;
}

static bool has_ended(const char *state)
{
    static const char *const names[] = {"done",    "pruned",    "failed", "oom",
                                        "invalid", "cancelled", NULL};
    return strv_has(names, state);
}

/* Returns true if the trial has a curve and a value that is not the last one. */
static bool has_best_value(const json_t *trial, const char *metric)
{
    json_t *value = json_object_get(trial, "value");
    json_t *last = json_object_get(json_object_get(trial, "metrics"), metric);
    bool is_last = json_is_number(last) && json_number_value(value) == json_number_value(last);
    return json_is_number(value) && !is_last &&
           json_array_size(json_object_get(json_object_get(trial, "curves"), metric)) > 0;
}

/* Keeps the outcome constraints of a trial, which are those of all. Where only their result is
 * known, it becomes a metric with a bound. */
static int read_outcomes(struct import_trials *out, const json_t *trial, struct err *e)
{
    AUTO(json) json_t *bounds = json_incref(json_object_get(trial, "outcome_constraints"));
    json_t *feasible = json_object_get(trial, "feasible");
    if (!bounds && json_is_boolean(feasible)) {
        json_object_set_new(json_object_get(trial, "metrics"), "feasible",
                            json_integer(json_is_true(feasible)));
        bounds = json_pack("[{s:s, s:i}]", "metric", "feasible", "min", 1);
    }
    if (bounds && out->outcomes && !json_equal(bounds, out->outcomes))
        return err_set(e, -EINVAL, "other outcome_constraints than those of the trials before");
    out->outcomes = out->outcomes ? out->outcomes : json_incref(bounds);
    return 0;
}

static int read_trial(struct import_trials *out, size_t *unfinished, json_t *o, struct err *e)
{
    const char *state = json_string_value(json_object_get(o, "state"));
    json_t *metrics = json_object_get(o, "metrics");
    if (!state || !json_is_object(json_object_get(o, "params")) || !json_is_object(metrics))
        return err_set(e, -EINVAL, "a trial has \"state\", \"params\" and \"metrics\"");
    if (!has_ended(state)) {
        ++*unfinished;
        return 0;
    }
    json_t *goals = json_object_get(o, "goals"), *goal;
    const char *name;
    bool named = out->metric_count > 0;
    json_object_foreach (goals, name, goal) {
        bool maximize = json_is_string(goal) && strcmp(json_string_value(goal), "maximize") == 0;
        for (int i = 0; i < out->metric_count; i++)
            if (strcmp(out->metrics[i].name, name) == 0)
                out->metrics[i].maximize = maximize;
        if (!named && import_trials_add_metric(out, name, maximize, e) < 0)
            return -EINVAL;
    }
    if (out->metric_count == 0 && json_object_size(metrics) > 1) {
        err_set(e, -EINVAL, "which of its metrics counts?");
        return err_hint(e, "--metric NAME");
    }
    if (out->metric_count == 0 && json_object_size(metrics) == 1)
        (void)import_trials_add_metric(out, json_object_iter_key(json_object_iter(metrics)), false,
                                       NULL); /* the first: it cannot fail */
    if (out->metric_count > 0 && has_best_value(o, out->metrics[0].name))
        out->value_best = true;
    json_array_append(out->trials, o);
    return read_outcomes(out, o, e);
}

int exchange_lines_read(struct import_trials *out, size_t *unfinished, const char *text, size_t len,
                        bool described, struct err *e)
{
    size_t at = 0, number = 0;
    int rc = 0;
    out->trials = out->trials ? out->trials : json_array();
    while (rc == 0 && (at += strspn(text + at, " \t\r\n")) < len) {
        json_error_t why;
        const size_t flags = JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL;
        AUTO(json) json_t *o = json_loadb(text + at, len - at, flags, &why);
        number++;
        if (!o)
            return err_set(e, -EINVAL, "value %zu is not JSON: %s", number, why.text);
        at += (size_t)why.position;
        rc = described && number == 1 ? read_header(out, unfinished, o, e)
                                      : read_trial(out, unfinished, o, e);
        if (rc < 0)
            rc = err_wrap(e, "value %zu", number);
    }
    return rc;
}
