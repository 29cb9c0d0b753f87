#include "hpo/samplers/warm_start.h"

#include <math.h>
#include <string.h>

#include "common/json.h"
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

/* Returns the trial's value of each metric as an object (new reference), or NULL if a value is
 * missing or not finite. */
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

struct warm_start_counts warm_start_import(json_t *into, const struct spec *s,
                                           const struct trial_view *trials, const char *metric)
{
    struct warm_start_counts n = {0};
    for (size_t i = 0; i < trials->count; i++) {
        const struct trial *t = trials->trials[i];
        if (t->state != TRIAL_DONE)
            continue;
        n.done++;
        struct config_node at = config_node_of_json(t->params);
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
