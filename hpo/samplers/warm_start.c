#include "hpo/samplers/warm_start.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "hpo/space/distribution.h"
#include "hpo/space/space.h"

/* Returns a trial's value of metric i, or NAN if it has none. The best point is chosen by this
 * sweep's goal, since the other sweep may have had the opposite goal. */
static double value_of(const struct spec *s, int i, const struct trial *t, const char *metric)
{
    const struct spec_metric *m = &s->metrics[i];
    double v = NAN;
    if (i > 0 || !metric || strcmp(m->name, metric) != 0) {
        (void)json_as_number(&v, json_object_get(t->metrics, m->name)); /* on failure v stays NAN */
        return v;
    }
    if (s->value_last)
        return trial_value(t, true);
    for (size_t k = 0; k < t->curve.count; k++)
        v = m->maximize ? fmax(v, t->curve.points[k].value) : fmin(v, t->curve.points[k].value);
    return v;
}

/* Returns the trial's value of each metric as an object (new reference). If a value is missing or
 * not finite, returns NULL and sets `e` to the reason. */
static json_t *values_of(const struct spec *s, const struct trial *t, const char *metric,
                         struct err *e)
{
    AUTO(json) json_t *values = json_object();
    for (int i = 0; i < s->metric_count; i++) {
        double v = value_of(s, i, t, metric);
        if (!isfinite(v)) {
            err_set(e, -ENODATA, "without a finite value of '%s'", s->metrics[i].name);
            return NULL;
        }
        json_object_set_new(values, s->metrics[i].name, json_real(v));
    }
    for (size_t i = 0; i < s->outcomes.count; i++) {
        const char *name = s->outcomes.at[i].metric;
        double v = NAN; /* it stays NAN on failure */
        (void)json_as_number(&v, json_object_get(t->metrics, name));
        if (isfinite(v) && !json_object_get(values, name))
            json_object_set_new(values, name, json_real(v));
    }
    return TAKE(values);
}

/* Returns the parameter with this dotted name, or NULL. */
static const json_t *find_param(const json_t *params, const char *name)
{
    const char *dot = strchr(name, '.');
    const json_t *whole = json_object_get(params, name);
    if (whole || !dot)
        return whole;
    AUTO(free) char *group = xasprintf("%.*s", (int)(dot - name), name);
    return find_param(json_object_get(params, group), dot + 1);
}

/* Reads the trial's parameters as a set of the space (new reference). Returns NULL if they are not,
 * and sets `e` to the reason, without the parameter's value if there is a range. */
static json_t *params_of(const struct spec *s, const struct trial *t, struct err *e)
{
    struct config_node at = config_node_of_json(t->params);
    json_t *params = NULL;
    if (space_params(&params, s->space, &at, e) == 0)
        return params;
    for (size_t k = 0; k < space_dims(s->space); k++) {
        const json_t *value = find_param(t->params, space_name(s->space, k));
        if (value && !(distribution_unit(space_distribution(s->space, k), value) >= 0)) {
            *e = (struct err){0};
            err_set(e, -EINVAL, "'%s' is outside its range", space_name(s->space, k));
            return NULL;
        }
    }
    return NULL;
}

/* Adds 1 to the reason's count. A place in the set ("/k: …") before the reason is dropped. */
static void count_reason(json_t *left_out, const char *reason)
{
    const char *colon = *reason == '/' ? strstr(reason, ": ") : NULL;
    reason = colon ? colon + 2 : reason;
    if (!json_object_get(left_out, reason) && json_object_size(left_out) >= WARM_START_REASONS_MAX)
        reason = "other reasons";
    json_int_t n = json_integer_value(json_object_get(left_out, reason));
    json_object_set_new(left_out, reason, json_integer(n + 1));
}

struct warm_start_counts warm_start_import(json_t *into, const struct spec *s,
                                           const struct trial_view *trials, const char *metric)
{
    struct warm_start_counts n = {.left_out = json_object()};
    for (size_t i = 0; i < trials->count; i++) {
        const struct trial *t = trials->trials[i];
        if (t->state != TRIAL_DONE)
            continue;
        n.done++;
        struct err e = {0};
        AUTO(json) json_t *params = params_of(s, t, &e);
        AUTO(json) json_t *values = params ? values_of(s, t, metric, &e) : NULL;
        n.taken += values != NULL;
        if (values)
            json_array_append_new(into,
                                  json_pack("{s:O, s:O}", "params", params, "values", values));
        else
            count_reason(n.left_out, e.text);
    }
    return n;
}
