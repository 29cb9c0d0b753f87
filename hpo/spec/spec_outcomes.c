#include "hpo/spec/spec_outcomes.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/json.h"

static int read_bound(struct outcomes *o, const struct config_node *n, struct err *e)
{
    static const char *const keys[] = {"metric", "min", "max"};
    struct outcome_bound *b = &o->at[o->count++];
    *b = (struct outcome_bound){.min = -INFINITY, .max = INFINITY};
    if (config_node_only_keys(n, keys, COUNT_OF(keys), "an outcome constraint", e) < 0 ||
        config_node_text(&b->metric, n, "metric", e) < 0 ||
        config_node_real(&b->min, n, "min", e) < 0 || config_node_real(&b->max, n, "max", e) < 0)
        return -EINVAL;
    if (!b->metric || !b->metric[0])
        return config_node_error(n, e, "the outcome constraint's 'metric' is missing");
    for (const struct outcome_bound *other = o->at; other < b; other++)
        if (strcmp(other->metric, b->metric) == 0)
            return config_node_error(n, e, "the metric '%s' has two outcome constraints",
                                     b->metric);
    if (isinf(b->min) && isinf(b->max)) {
        config_node_error(n, e, "the outcome constraint of '%s' has neither 'min' nor 'max'",
                          b->metric);
        return err_hint(e, n->doc ? "{metric: %s, max: 50}" : "{\"metric\":\"%s\",\"max\":50}",
                        b->metric);
    }
    return b->min > b->max ? config_node_error(n, e, "'min' must not be above 'max'") : 0;
}

int spec_outcomes_read(struct outcomes *out, const struct config_node *n, struct err *e)
{
    struct config_node list = config_node_member(n, "outcome_constraints");
    size_t count = json_array_size(list.value);
    if (list.value && !json_is_array(list.value)) {
        config_node_error(&list, e, "'outcome_constraints' must be a list, not %s",
                          json_type_name(list.value));
        return err_hint(e, list.doc ? "[{metric: latency_ms, max: 50}]"
                                    : "[{\"metric\":\"latency_ms\",\"max\":50}]");
    }
    if (count > OUTCOME_MAX)
        return config_node_error(&list, e, "more than %d outcome constraints", OUTCOME_MAX);
    for (size_t i = 0; i < count; i++) {
        struct config_node at = config_node_item(&list, i);
        if (read_bound(out, &at, e) < 0)
            return -EINVAL;
    }
    return 0;
}

json_t *spec_outcomes_json(const struct outcomes *o)
{
    json_t *list = o->count ? json_array() : NULL;
    for (size_t i = 0; i < o->count; i++) {
        const struct outcome_bound *b = &o->at[i];
        json_array_append_new(list, json_pack("{s:s, s:o*, s:o*}", "metric", b->metric, "min",
                                              isinf(b->min) ? NULL : json_real(b->min), "max",
                                              isinf(b->max) ? NULL : json_real(b->max)));
    }
    return list;
}
