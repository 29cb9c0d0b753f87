#include "hpo/samplers/objectives.h"

#include <math.h>

#include "common/json.h"

static double value(const struct sampler_goal *goals, size_t i, const struct trial *t)
{
    double v;
    if (i == 0)
        return trial_value(t, goals->last);
    const json_t *last = json_object_get(t->metrics, goals[i].metric);
    return json_as_number(&v, last) == 0 ? v : (double)NAN;
}

bool objectives_values(const struct sampler_goal *goals, size_t count, const struct trial *t,
                       double *y)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(value(goals, i, t)))
            return false;
    for (size_t i = 0; i < count; i++)
        y[i] = goals[i].maximize ? -value(goals, i, t) : value(goals, i, t);
    return true;
}
