#include "hpo/samplers/sweep_analysis.h"

#include <math.h>

#include "common/json.h"
#include "hpo/model/pareto.h"
#include "hpo/samplers/sweep_importance.h"
#include "hpo/space/distribution.h"
#include "hpo/space/space.h"

/* ---- importance ----------------------------------------------------------------------------- */

/* Collects the trials that are done or pruned and have a value, and returns their number. y[i] is
 * the value of the i-th of them, and the row u[i * dims …] is its point. */
static size_t table(const struct space *space, const struct sampler_objective *objectives,
                    const struct trial_view *view, double *u, double *y)
{
    size_t dims = space_dims(space), n = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *t = view->trials[i];
        if (!trial_has_signal(t->state) || !trial_is_ended(t->state) ||
            !sampler_values(objectives, 1, t, &y[n]) ||
            space_unit(space, t->params, u + n * dims, NULL) < 0)
            continue;
        n++;
    }
    return n;
}

static double largest(const struct sweep_importance *all, const bool *shown, size_t dims,
                      size_t *at)
{
    double most = -1;
    for (size_t k = 0; k < dims; k++)
        if (!shown[k] && all[k].total > most) {
            most = all[k].total;
            *at = k;
        }
    return most;
}

/* Computes the importance of all parameters in out[0 … dims - 1]. Returns false if there are too
 * few trials. */
static bool compute(const struct space *space, const struct sampler_objective *objectives,
                    const struct trial_view *view, size_t resamples, struct sweep_importance *out)
{
    AUTO(free) double *u = xcalloc(view->count + 1, (space_dims(space) + 1) * sizeof *u);
    double *y = u + (view->count + 1) * space_dims(space);
    size_t n = table(space, objectives, view, u, y);
    if (n < SWEEP_ANALYSIS_TRIALS_MIN)
        return false;
    (void)sweep_importance(space, u, y, n, resamples, out); /* without a model all are 0 */
    return true;
}

json_t *sweep_analysis_importance(const struct space *space,
                                  const struct sampler_objective *objectives,
                                  const struct trial_view *view)
{
    size_t dims = space_dims(space), at = 0;
    AUTO(free) struct sweep_importance *all = xcalloc(dims + 1, sizeof *all);
    AUTO(free) bool *shown = xcalloc(dims + 1, sizeof *shown);
    if (!compute(space, objectives, view, 0, all))
        return json_null();
    json_t *out = json_object();
    for (double most; (most = largest(all, shown, dims, &at)) >= 0; shown[at] = true)
        json_object_set_new(out, space_name(space, at), json_real(most));
    return out;
}

/* Returns the values of parameter k at its best range: [low, high], or [word]; new reference. */
static json_t *best_range(const struct space *space, size_t k, const struct sweep_importance *p)
{
    const struct distribution *d = space_distribution(space, k);
    if (d->kind == DISTRIBUTION_CATEGORICAL)
        return json_pack("[o]", distribution_quantile(d, p->from));
    return json_pack("[o,o]", distribution_quantile(d, p->from), distribution_quantile(d, p->to));
}

/* Returns which values of the parameter are better; NULL: none, or those between. */
static const char *better(const struct sweep_importance *p)
{
    static const double decides_min = 0.005;
    double line = p->trend * p->trend;
    return line < fmax(p->first / 2, decides_min) ? NULL : p->trend > 0 ? "lower" : "higher";
}

json_t *sweep_analysis_importance_ranges(const struct space *space,
                                         const struct sampler_objective *objectives,
                                         const struct trial_view *view, size_t resamples)
{
    size_t dims = space_dims(space);
    AUTO(free) struct sweep_importance *all = xcalloc(dims + 1, sizeof *all);
    if (!compute(space, objectives, view, resamples, all))
        return json_null();
    json_t *out = json_object();
    for (size_t k = 0; k < dims; k++) {
        const struct sweep_importance *p = &all[k];
        json_object_set_new(out, space_name(space, k),
                            json_pack("[f,f,f,f,f,o,s?]", p->total, p->low, p->high, p->first,
                                      p->region, best_range(space, k, p), better(p)));
    }
    return out;
}

/* ---- the Pareto front ----------------------------------------------------------------------- */

json_t *sweep_analysis_front(const struct sampler_task *task, const struct trial_view *view)
{
    size_t count = task->objective_count;
    AUTO(free) double *y = xcalloc(view->count * count, sizeof *y);
    AUTO(free) size_t *index = xcalloc(view->count, sizeof *index);
    AUTO(free) size_t *front = xcalloc(view->count, sizeof *front);
    size_t n = 0;
    for (size_t i = 0; i < view->count; i++) {
        const struct trial *t = view->trials[i];
        if (trial_has_signal(t->state) && outcome_feasible(task->outcomes, t->metrics) &&
            sampler_values(task->objectives, count, t, &y[n * count]))
            index[n++] = i;
    }
    json_t *ids = json_array();
    size_t best = pareto_front(y, n, count, front);
    for (size_t i = 0; i < best; i++)
        json_array_append_new(ids, json_integer(view->trials[index[front[i]]]->id));
    return ids;
}
