#include "hpo/samplers/warm_start.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "hpo/space/space.h"

/* ---- written by a person -----------------------------------------------------------------------
 */

/* A new reference; NULL: the error is told. */
static json_t *read_values(const struct spec *s, const struct node *n, struct err *e)
{
    struct node one = node_member(n, "value"), all = node_member(n, "values");
    if (!one.value == !all.value || (one.value && s->metric_count > 1)) {
        node_error(n, e, "an observation has either 'value', of the one metric, or 'values'");
        err_hint(e,
                 s->metric_count > 1 ? "{params: {…}, values: {%s: 0.3, …}}"
                                     : "{params: {…}, value: 0.3}",
                 s->metrics[0].name);
        return NULL;
    }
    const char *names[SPEC_METRICS_MAX];
    for (int i = 0; i < s->metric_count; i++)
        names[i] = s->metrics[i].name;
    if (all.value && node_only_keys(&all, names, (size_t)s->metric_count, "values", e) < 0)
        return NULL;
    AUTO(json) json_t *values = json_object();
    for (int i = 0; i < s->metric_count; i++) {
        struct node at = one.value ? one : node_member(&all, names[i]);
        double v = NAN;
        if (json_as_number(&v, at.value) < 0 || !isfinite(v)) {
            node_error(at.value ? &at : &all, e,
                       "the value of '%s' must be a finite number, not %s", names[i],
                       json_what(at.value));
            return NULL;
        }
        json_object_set_new(values, names[i], json_real(v));
    }
    return TAKE(values);
}

int prior_read(json_t *into, const struct spec *s, const struct node *list, struct err *e)
{
    static const char *const keys[] = {"params", "value", "values"};
    if (list->value && !json_is_array(list->value))
        return node_error(list, e, "'prior' must be a list of observations, not %s",
                          json_what(list->value));
    if (json_array_size(list->value) > 0 && s->metric_count == 0)
        return node_error(list, e, "'prior' needs a 'metric' that its values are of");
    for (size_t i = 0; i < json_array_size(list->value); i++) {
        struct node at = node_item(list, i), set = node_member(&at, "params");
        if (node_only_keys(&at, keys, COUNT_OF(keys), "an observation", e) < 0)
            return -EINVAL;
        if (!set.value)
            return node_error(&at, e, "the observation's 'params' are missing");
        AUTO(json) json_t *params = NULL;
        if (space_params(&params, s->space, &set, e) < 0)
            return -EINVAL;
        json_t *values = read_values(s, &at, e);
        if (!values)
            return -EINVAL;
        json_array_append_new(into, json_pack("{s:O, s:o}", "params", params, "values", values));
    }
    return 0;
}

/* ---- of another sweep --------------------------------------------------------------------------
 */

/* A trial's value by this search's goal; the other's may have been the opposite. NAN: none. */
static double value_of(const struct spec *s, int i, const struct trial *t, const char *metric)
{
    const struct spec_metric *m = &s->metrics[i];
    double v = NAN;
    if (i > 0 || !metric || strcmp(m->name, metric) != 0) {
        (void)json_as_number(&v, json_object_get(t->metrics, m->name)); /* stays NAN */
        return v;
    }
    if (s->value_last)
        return trial_value(t, true);
    for (size_t k = 0; k < t->point_count; k++)
        v = m->maximize ? fmax(v, t->points[k].value) : fmin(v, t->points[k].value);
    return v;
}

/* A new reference; NULL: a value is missing, or not finite. */
static json_t *values_of(const struct spec *s, const struct trial *t, const char *metric)
{
    AUTO(json) json_t *values = json_object();
    for (int i = 0; i < s->metric_count; i++) {
        double v = value_of(s, i, t, metric);
        if (!isfinite(v))
            return NULL;
        json_object_set_new(values, s->metrics[i].name, json_real(v));
    }
    return TAKE(values);
}

struct prior_counts prior_take(json_t *into, const struct spec *s, const struct trial_view *trials,
                               const char *metric)
{
    struct prior_counts n = {0};
    for (size_t i = 0; i < trials->count; i++) {
        const struct trial *t = trials->trials[i];
        if (t->state != TRIAL_DONE)
            continue;
        n.done++;
        struct node at = node_of_json(t->params);
        struct err e = {0};
        AUTO(json) json_t *params = NULL;
        bool inside = space_params(&params, s->space, &at, &e) == 0;
        AUTO(json) json_t *values = inside ? values_of(s, t, metric) : NULL;
        n.outside += !inside;
        n.valueless += inside && !values;
        n.taken += values != NULL;
        if (values)
            json_array_append_new(into,
                                  json_pack("{s:O, s:O}", "params", params, "values", values));
    }
    return n;
}
