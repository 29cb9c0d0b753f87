/* sweep_columns_view - reads the columns: their content as values and as JSON. */
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "hpo/reader/json_scan.h"
#include "hpo/reader/sweep_columns.h"

struct columns_value sweep_columns_value(const struct sweep_columns *c, size_t param, size_t trial)
{
    const struct columns_param *p = &c->params[param];
    if (trial >= p->cap || p->kinds[trial] == COLUMNS_ABSENT)
        return (struct columns_value){.kind = COLUMNS_ABSENT};
    struct columns_value v = {.kind = (enum columns_kind)p->kinds[trial]};
    if (v.kind == COLUMNS_JSON)
        v.json = p->cells[trial].json;
    else
        v.number = p->cells[trial].number;
    return v;
}

const struct columns_metric *sweep_columns_find_metric(const struct columns_trial *t, int name)
{
    for (int i = 0; name >= 0 && i < t->metric_count; i++)
        if (t->metrics[i].name == name)
            return &t->metrics[i];
    return NULL;
}

const struct columns_metric *sweep_columns_metric(const struct sweep_columns *c, size_t trial,
                                                  const char *name)
{
    return sweep_columns_find_metric(&c->trials[trial],
                                     text_table_find(&c->texts, name, strlen(name)));
}

double sweep_columns_score(const struct sweep_columns *c, size_t trial)
{
    const struct columns_metric *m = sweep_columns_find_metric(&c->trials[trial], c->metric);
    return !m ? (double)NAN : c->spec->value_last ? m->curve.last : m->curve.best;
}

int sweep_columns_best(const struct sweep_columns *c)
{
    int best = -1;
    double best_value = NAN;
    for (size_t i = 0; i < c->count; i++) {
        double v = trial_has_signal(c->trials[i].state) ? sweep_columns_score(c, i) : (double)NAN;
        bool better = c->spec->metrics[0].maximize ? v > best_value : v < best_value;
        if (!isnan(v) && (best < 0 || better) && sweep_columns_feasible(c, i)) {
            best = (int)i;
            best_value = v;
        }
    }
    return best;
}

json_t *sweep_columns_value_json(const struct sweep_columns *c, struct columns_value v)
{
    const char *text = v.kind == COLUMNS_JSON ? text_table_at(&c->texts, v.json) : NULL;
    if (text)
        return json_scan_value(text, strlen(text));
    return v.kind == COLUMNS_INTEGER ? json_integer((json_int_t)v.number) : json_real(v.number);
}

json_t *sweep_columns_params_json(const struct sweep_columns *c, size_t trial)
{
    json_t *params = json_object();
    for (size_t i = 0; i < c->param_count; i++) {
        struct columns_value v = sweep_columns_value(c, i, trial);
        if (v.kind == COLUMNS_ABSENT)
            continue;
        json_t *at = params;
        char **name = c->params[i].path;
        for (; name[1]; name++) {
            if (!json_object_get(at, *name))
                json_object_set_new(at, *name, json_object());
            at = json_object_get(at, *name);
        }
        json_object_set_new(at, *name, sweep_columns_value_json(c, v));
    }
    return params;
}

json_t *sweep_columns_gang(const struct sweep_columns *c, size_t trial)
{
    int64_t lease = c->trials[trial].lease;
    const char *text = lease > 0 ? text_table_at(&c->texts, c->leases[lease - 1].gang) : NULL;
    json_t *gang = text ? json_scan_value(text, strlen(text)) : NULL;
    return gang ? gang : json_array();
}

json_t *sweep_columns_model_state(const struct sweep_columns *c)
{
    return c->model_state ? json_scan_value(c->model_state, strlen(c->model_state)) : NULL;
}

static json_t *metrics_json(const struct sweep_columns *c, const struct columns_trial *t)
{
    json_t *o = json_object();
    for (int i = 0; i < t->metric_count; i++) {
        const struct columns_metric *m = &t->metrics[i];
        json_object_set_new(o, text_table_at(&c->texts, m->name),
                            m->is_integer ? json_integer((json_int_t)m->last)
                                          : json_number(m->last));
    }
    return o;
}

bool sweep_columns_feasible(const struct sweep_columns *c, size_t trial)
{
    AUTO(json) json_t *metrics = NULL;
    if (c->spec->outcomes.count > 0)
        metrics = metrics_json(c, &c->trials[trial]);
    return outcome_feasible(&c->spec->outcomes, metrics);
}

json_t *sweep_columns_trial_json(const struct sweep_columns *c, size_t trial)
{
    const struct columns_trial *t = &c->trials[trial];
    const struct columns_metric *m = sweep_columns_find_metric(t, c->metric);
    double score = sweep_columns_score(c, trial);
    json_t *o = json_pack(
        "{s:i, s:s, s:o, s:o, s:I, s:s?, s:f, s:I, s:o}", "id", (int)trial, "state",
        trial_state_name(t->state), "params", sweep_columns_params_json(c, trial), "value",
        isnan(score) ? json_null() : json_real(score), "steps",
        (json_int_t)(m ? m->curve.count : 0), "node", text_table_at(&c->texts, t->node), "seconds",
        t->seconds, "lease", (json_int_t)t->lease, "metrics", metrics_json(c, t));
    if (c->spec->outcomes.count > 0)
        json_object_set_new(o, "feasible", json_boolean(sweep_columns_feasible(c, trial)));
    if (t->error >= 0)
        json_object_set_new(o, "error", json_string(text_table_at(&c->texts, t->error)));
    if (t->why >= 0)
        json_object_set_new(o, "why", json_string(text_table_at(&c->texts, t->why)));
    return o;
}

json_t *sweep_columns_curves_json(const struct sweep_columns *c, size_t trial)
{
    const struct columns_trial *t = &c->trials[trial];
    json_t *curves = json_object();
    for (int i = 0; i < t->metric_count; i++) {
        const struct trial_curve *curve = &t->metrics[i].curve;
        json_t *points = json_array();
        for (size_t k = 0; k < curve->count; k++)
            json_array_append_new(
                points, json_pack("[f,f]", curve->points[k].step, curve->points[k].value));
        json_object_set_new(curves, text_table_at(&c->texts, t->metrics[i].name), points);
    }
    return curves;
}

/* ---- trials for the functions of samplers --------------------------------------------------- */

static struct trial *trial_of(const struct sweep_columns *c, size_t i)
{
    const struct columns_trial *from = &c->trials[i];
    AUTO(json) json_t *params = sweep_columns_params_json(c, i);
    struct trial *t = trial_new((int)i, params, from->created_ms);
    t->state = from->state;
    t->lease = from->lease;
    t->seconds = from->seconds;
    json_decref(t->metrics);
    t->metrics = metrics_json(c, from);
    const struct columns_metric *m = sweep_columns_find_metric(from, c->metric);
    if (m)
        trial_curve_copy(&t->curve, &m->curve);
    return t;
}

struct trial_view sweep_columns_view(const struct sweep_columns *c, const int *trials, size_t count)
{
    struct trial **list = xcalloc(count + 1, sizeof *list);
    for (size_t i = 0; i < count; i++)
        list[i] = trial_of(c, (size_t)trials[i]);
    return (struct trial_view){(const struct trial *const *)list, count};
}

struct trial_view sweep_columns_all(const struct sweep_columns *c)
{
    AUTO(free) int *ids = xcalloc(c->count + 1, sizeof *ids);
    for (size_t i = 0; i < c->count; i++)
        ids[i] = (int)i;
    return sweep_columns_view(c, ids, c->count);
}

void sweep_columns_view_free(struct trial_view *view)
{
    struct trial **list = (struct trial **)view->trials;
    for (size_t i = 0; i < view->count; i++)
        trial_free(list[i]);
    free(list);
    *view = (struct trial_view){0};
}
