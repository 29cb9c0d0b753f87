#include "hpo/samplers/objectives.h"

#include <math.h>

#include "common/json.h"

static double value(const struct sampler_objective *objectives, size_t i, const struct trial *t)
{
    double v;
    if (i == 0)
        return trial_value(t, objectives->last);
    const json_t *last = json_object_get(t->metrics, objectives[i].metric);
    return json_as_number(&v, last) == 0 ? v : (double)NAN;
}

bool objectives_values(const struct sampler_objective *objectives, size_t count,
                       const struct trial *t, double *y)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(value(objectives, i, t)))
            return false;
    for (size_t i = 0; i < count; i++)
        y[i] = objectives[i].maximize ? -value(objectives, i, t) : value(objectives, i, t);
    return true;
}
