#include "hpo/spec/spec_prior.h"

#include <errno.h>
#include <math.h>

#include "common/json.h"
#include "hpo/space/space.h"

/* Returns the values of an observation by metric (new reference), or NULL and sets `e`. */
static json_t *read_values(const struct spec *s, const struct config_node *n, struct err *e)
{
    struct config_node one = config_node_member(n, "value"), all = config_node_member(n, "values");
    if (!one.value == !all.value || (one.value && s->metric_count > 1)) {
        config_node_error(n, e,
                          "an observation has either 'value', if there is one metric, or 'values'");
        err_hint(e,
                 s->metric_count > 1 ? "{params: {…}, values: {%s: 0.3, …}}"
                                     : "{params: {…}, value: 0.3}",
                 s->metrics[0].name);
        return NULL;
    }
    const char *names[SPEC_METRICS_MAX];
    for (int i = 0; i < s->metric_count; i++)
        names[i] = s->metrics[i].name;
    if (all.value && config_node_only_keys(&all, names, (size_t)s->metric_count, "values", e) < 0)
        return NULL;
    AUTO(json) json_t *values = json_object();
    for (int i = 0; i < s->metric_count; i++) {
        struct config_node at = one.value ? one : config_node_member(&all, names[i]);
        double v = NAN;
        if (json_as_number(&v, at.value) < 0 || !isfinite(v)) {
            config_node_error(at.value ? &at : &all, e,
                              "the value of '%s' must be a finite number, not %s", names[i],
                              json_type_name(at.value));
            return NULL;
        }
        json_object_set_new(values, names[i], json_real(v));
    }
    return TAKE(values);
}

int spec_prior_read(json_t *into, const struct spec *s, const struct config_node *list,
                    struct err *e)
{
    static const char *const keys[] = {"params", "value", "values"};
    if (list->value && !json_is_array(list->value))
        return config_node_error(list, e, "'prior' must be a list of observations, not %s",
                                 json_type_name(list->value));
    if (json_array_size(list->value) > 0 && s->metric_count == 0)
        return config_node_error(list, e, "'prior' needs a 'metric' for its values");
    for (size_t i = 0; i < json_array_size(list->value); i++) {
        struct config_node at = config_node_item(list, i), set = config_node_member(&at, "params");
        if (config_node_only_keys(&at, keys, COUNT_OF(keys), "an observation", e) < 0)
            return -EINVAL;
        if (!set.value)
            return config_node_error(&at, e, "the observation's 'params' are missing");
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
