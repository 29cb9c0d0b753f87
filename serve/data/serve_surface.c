#include "serve/data/serve_surface.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "common/json.h"
#include "common/redact.h"
#include "hpo/samplers/sampler.h"
#include "hpo/space/distribution.h"
#include "hpo/space/space.h"
#include "serve/data/serve_pack.h"

struct side { /* of the grid */
    size_t count;
    double *u; /* coordinates in the unit cube */
    json_t *values;
};

static void side_free(struct side *s)
{
    free(s->u);
    json_decref(s->values);
}

static void side_set(struct side *s, const struct space *space, size_t dim, size_t cells)
{
    const struct distribution *d = space_distribution(space, dim);
    const char *name = space_name(space, dim);
    double values = distribution_count(d);
    bool few = values <= (double)cells;
    s->count = few ? (size_t)values : cells;
    s->u = xcalloc(s->count, sizeof *s->u);
    s->values = json_array();
    for (size_t i = 0; i < s->count; i++) {
        AUTO(json) json_t *v = few ? distribution_value(d, (double)i) : NULL;
        s->u[i] = few ? distribution_unit(d, v) : ((double)i + 0.5) / (double)s->count;
        json_array_append_new(s->values, redact_json(name, distribution_quantile(d, s->u[i])));
    }
}

/* Sets u to the point of the plan's trial. Returns the trial; -1: there is none in the space. */
static int set_base(double *u, const struct sweep_reader *v, int at)
{
    int trial = at >= 0 ? at : sweep_columns_best(v->columns);
    if (trial < 0 || (size_t)trial >= v->columns->count)
        return -1;
    AUTO(json) json_t *params = sweep_columns_params_json(v->columns, (size_t)trial);
    return space_unit(v->spec->space, params, u, NULL) == 0 ? trial : -1;
}

/* Predicts at n points. Returns false if there is no model. */
static bool predict(struct sampler_prediction *out, const struct sweep_reader *v, const double *u,
                    size_t n)
{
    struct sampler_objective objectives[SPEC_METRICS_MAX];
    struct sampler_task task;
    sampler_task_of_spec(&task, objectives, v->spec, NULL);
    AUTO(sampler) struct sampler *s = sampler_new(sampler_of(v->spec->method), &task);
    AUTO(json) json_t *state = sweep_columns_model_state(v->columns);
    struct trial_view all = sweep_columns_all(v->columns);
    sampler_restore(s, state);
    bool ok = state && sampler_predict(s, &all, u, n, out);
    sweep_columns_view_free(&all);
    return ok;
}

static void pack(struct strbuf *out, const struct sampler_prediction *p, size_t n, json_t *head)
{
    struct serve_pack pack = {0};
    SERVE_PACK(&pack, "median", F32, n, i, p[i].median);
    SERVE_PACK(&pack, "low", F32, n, i, p[i].low);
    SERVE_PACK(&pack, "high", F32, n, i, p[i].high);
    serve_pack_finish(out, &pack, head);
}

int serve_surface_body(struct strbuf *out, const struct sweep_reader *v,
                       const struct serve_surface_plan *plan, struct err *e)
{
    size_t dims = space_dims(v->spec->space);
    if ((size_t)plan->x >= dims || (plan->y >= 0 && (size_t)plan->y >= dims))
        return err_set(e, -EINVAL, "there is no such parameter");
    if (!v->spec->method->learns_from_warm_start || v->columns->count > READER_ANALYSED_MAX)
        return err_set(e, -ENOTSUP, "method %s has no model of this sweep", v->spec->method->name);
    struct side x = {0}, y = {.count = 1};
    side_set(&x, v->spec->space, (size_t)plan->x, plan->cells);
    if (plan->y >= 0)
        side_set(&y, v->spec->space, (size_t)plan->y, plan->cells);
    size_t n = x.count * y.count;
    AUTO(free) double *u = xcalloc(n + 1, dims * sizeof *u);
    AUTO(free) struct sampler_prediction *p = xcalloc(n, sizeof *p);
    double *base = u + n * dims;
    int at = set_base(base, v, plan->at);
    for (size_t i = 0; i < n; i++) {
        memcpy(u + i * dims, base, dims * sizeof *u);
        u[i * dims + (size_t)plan->x] = x.u[i % x.count];
        if (plan->y >= 0)
            u[i * dims + (size_t)plan->y] = y.u[i / x.count];
    }
    bool ok = at >= 0 && predict(p, v, u, n);
    if (ok)
        pack(out, p, n,
             json_pack("{s:i,s:i,s:i,s:O,s:O?}", "x", plan->x, "y", plan->y, "at", at, "xs",
                       x.values, "ys", y.values));
    side_free(&x);
    side_free(&y);
    return ok ? 0 : err_set(e, -ENOTSUP, "the sweep has too few finished trials for a model");
}
