#include "hpo/exchange/export_lines.h"

#include <errno.h>

#include "common/json.h"

static void set_time(json_t *o, const char *key, int64_t ms)
{
    if (ms > 0)
        json_object_set_new(o, key, json_integer(ms));
}

json_t *export_lines_trial(const struct sweep_columns *c, size_t trial)
{
    const struct columns_trial *t = sweep_columns_trial(c, trial);
    json_t *o = sweep_columns_trial_json(c, trial);
    set_time(o, "created_ms", t->created_ms);
    set_time(o, "leased_ms", t->leased_ms);
    set_time(o, "ended_ms", t->ended_ms);
    json_object_set_new(o, "curves", sweep_columns_curves_json(c, trial));
    return o;
}

json_t *export_lines_header(const struct sweep_reader *v, const struct export_params *p)
{
    json_t *metrics = json_array(), *params = json_array();
    for (int i = 0; i < v->spec->metric_count; i++)
        json_array_append_new(metrics,
                              json_pack("{s:s?, s:s}", "name", v->spec->metrics[i].name, "goal",
                                        v->spec->metrics[i].maximize ? "maximize" : "minimize"));
    for (size_t i = 0; i < p->count; i++)
        json_array_append_new(params, export_params_json(&p->at[i]));
    return json_pack("{s:s, s:s, s:o, s:o}", "name", v->dir->name, "method", v->spec->method->name,
                     "metrics", metrics, "params", params);
}

int export_lines_write(FILE *out, const struct sweep_columns *c)
{
    for (size_t i = 0; i < sweep_columns_count(c); i++) {
        AUTO(json) json_t *t = export_lines_trial(c, i);
        AUTO(free) char *line = json_line(t);
        if (fprintf(out, "%s\n", line) < 0)
            return -errno;
    }
    return fflush(out) == 0 ? 0 : -errno;
}
