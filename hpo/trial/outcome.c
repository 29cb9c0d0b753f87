#include "hpo/trial/outcome.h"

#include <math.h>
#include <stdlib.h>

#include "common/json.h"

void outcome_clear(struct outcomes *o)
{
    for (size_t i = 0; i < o->count; i++)
        free(o->at[i].metric);
    *o = (struct outcomes){0};
}

double outcome_excess(const struct outcome_bound *b, double value)
{
    return isfinite(value) ? fmax(value - b->max, b->min - value) : (double)INFINITY;
}

bool outcome_feasible(const struct outcomes *o, const json_t *metrics)
{
    for (size_t i = 0; o && i < o->count; i++) {
        double value = NAN;
        (void)json_as_number(&value, json_object_get(metrics, o->at[i].metric)); /* stays NAN */
        if (outcome_excess(&o->at[i], value) > 0)
            return false;
    }
    return true;
}

const char *outcome_unreported(const struct outcomes *o, const json_t *reported)
{
    for (size_t i = 0; i < o->count; i++)
        if (!json_object_get(reported, o->at[i].metric))
            return o->at[i].metric;
    return NULL;
}
