/* import_json - trials from files of JSON: the lines of `drover export --jsonl`, and runs of
 * W&B. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/json.h"
#include "hpo/exchange/import_read.h"

/* Calls `fn` for each object of a text: a list, or one object after the other. */
typedef int (*object_fn)(struct import_trials *out, struct import_skipped *skipped,
                         const struct import_opts *o, json_t *object, struct err *e);

static int each_object(struct import_trials *out, struct import_skipped *skipped,
                       const struct import_opts *o, object_fn fn, struct err *e)
{
    AUTO(free) char *text = NULL;
    size_t len, at = 0, number = 0;
    int rc = import_read_file(&text, &len, o->path, e);
    out->trials = out->trials ? out->trials : json_array();
    while (rc == 0 && (at += strspn(text + at, " \t\r\n")) < len) {
        json_error_t why;
        AUTO(json)
        json_t *value =
            json_loadb(text + at, len - at, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &why);
        number++;
        if (!value)
            return err_set(e, -EINVAL, "%s: value %zu is not JSON: %s", o->path, number, why.text);
        at += (size_t)why.position;
        for (size_t i = 0; rc == 0 && i < json_array_size(value); i++)
            rc = fn(out, skipped, o, json_array_get(value, i), e);
        if (rc == 0 && !json_is_array(value))
            rc = fn(out, skipped, o, value, e);
        if (rc < 0)
            rc = err_wrap(e, "%s: value %zu", o->path, number);
    }
    return rc;
}

/* ---- drover's lines ------------------------------------------------------------------------- */

/* If no metric is given, the metrics are those of the first trial. */
static int read_line(struct import_trials *out, struct import_skipped *skipped,
                     const struct import_opts *o, json_t *line, struct err *e)
{
    const char *state = json_string_value(json_object_get(line, "state")), *name;
    json_t *metrics = json_object_get(line, "metrics"), *value;
    if (!state || !json_is_object(json_object_get(line, "params")) || !json_is_object(metrics))
        return err_set(e, -EINVAL, "a trial has \"state\", \"params\" and \"metrics\"");
    if (!import_trials_state(state)) {
        skipped->unfinished++;
        return 0;
    }
    if (out->metric_count == 0 && json_object_size(metrics) > 1) {
        err_set(e, -EINVAL, "which of its metrics counts?");
        return err_hint(e, "--metric NAME");
    }
    if (out->metric_count == 0)
        json_object_foreach (metrics, name, value)
            (void)import_trials_add_metric(out, name, false, NULL); /* the first: cannot fail */
    json_array_append(out->trials, line);
    return 0;
}

int import_json_read_lines(struct import_trials *out, struct import_skipped *skipped,
                           const struct import_opts *o, struct err *e)
{
    return each_object(out, skipped, o, read_line, e);
}

/* ---- W&B ------------------------------------------------------------------------------------ */

/* W&B's API wraps each value of the configuration: {"lr": {"value": 0.1}}. Keys that begin with _
 * are W&B's own. */
static json_t *read_config(const json_t *config, const struct import_opts *o)
{
    json_t *params = json_object(), *value;
    const char *name;
    json_object_foreach ((json_t *)config, name, value) {
        bool wanted = !o->params && name[0] != '_';
        for (char *const *p = o->params; p && *p; p++)
            wanted = wanted || strcmp(*p, name) == 0;
        json_t *inner = json_object_get(value, "value");
        value = inner ? inner : value;
        if (wanted && value && !json_is_null(value))
            import_trials_set(params, name, json_incref(value));
    }
    return params;
}

static json_t *read_history(const json_t *history, const struct import_trials *t)
{
    json_t *curves = json_object(), *row;
    for (int i = 0; i < t->metric_count; i++) {
        json_t *curve = json_array();
        size_t k;
        json_array_foreach (history, k, row) {
            json_t *step = json_object_get(row, "_step"), *value = NULL;
            value = json_object_get(row, t->metrics[i].name);
            if (json_is_number(value))
                json_array_append_new(curve,
                                      json_pack("[o,O]",
                                                json_is_number(step) ? json_incref(step)
                                                                     : json_integer((json_int_t)k),
                                                value));
        }
        json_object_set_new(curves, t->metrics[i].name, curve);
    }
    return curves;
}

static int read_run(struct import_trials *out, struct import_skipped *skipped,
                    const struct import_opts *o, json_t *run, struct err *e)
{
    const json_t *config = json_object_get(run, "config");
    const json_t *summary = json_object_get(run, "summary");
    const char *word = json_string_value(json_object_get(run, "state"));
    summary = summary ? summary : json_object_get(run, "summary_metrics");
    if (!json_is_object(config) || !json_is_object(summary))
        return err_set(e, -EINVAL, "a run needs the objects \"config\" and \"summary\"");
    if (out->metric_count == 0) {
        err_set(e, -EINVAL, "which key of \"summary\" is the metric?");
        return err_hint(e, "--metric NAME");
    }
    const char *state = word ? import_trials_state(word) : "done";
    if (!state) {
        skipped->unfinished++;
        return 0;
    }
    json_t *metrics = json_object();
    for (int i = 0; i < out->metric_count; i++) {
        json_t *value = json_object_get(summary, out->metrics[i].name);
        if (json_is_number(value))
            json_object_set(metrics, out->metrics[i].name, value);
    }
    json_t *seconds = json_object_get(summary, "_runtime");
    json_array_append_new(out->trials,
                          json_pack("{s:s, s:o, s:o, s:o, s:f}", "state", state, "params",
                                    read_config(config, o), "metrics", metrics, "curves",
                                    read_history(json_object_get(run, "history"), out), "seconds",
                                    json_number_value(seconds)));
    return 0;
}

int import_json_read_wandb(struct import_trials *out, struct import_skipped *skipped,
                           const struct import_opts *o, struct err *e)
{
    AUTO(free) char *text = NULL;
    size_t len;
    int rc = import_read_file(&text, &len, o->path, e);
    if (rc < 0)
        return rc;
    char first = text[strspn(text, " \t\r\n")];
    return first == '{' || first == '[' ? each_object(out, skipped, o, read_run, e)
                                        : import_csv_read(out, skipped, o, e);
}
