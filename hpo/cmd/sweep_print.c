#include "hpo/cmd/sweep_print.h"

#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/json.h"
#include "common/number_format.h"
#include "common/own_process.h"
#include "common/plural.h"
#include "common/redact.h"
#include "common/utf8.h"
#include "hpo/coordinator/progress_text.h"
#include "hpo/reader/json_scan.h"
#include "hpo/space/param_text.h"
#include "hpo/spec/spec_outcomes.h"
#include "hpo/worker/trial_dir.h"

enum { PLOT_WIDTH = 60, PLOT_HEIGHT = 10 };

/* ---- the command ---------------------------------------------------------------------------- */

static void add_variable(struct strbuf *out, const char *name, const char *value)
{
    AUTO(free) char *entry = xasprintf("%s=%s", name, value);
    strbuf_puts(out, " -x ");
    progress_text_shell(out, (char *[]){entry, NULL});
}

/* What a script that calls wandb.init() finds in a trial: the parameters, and the stand-in if it
 * was that one which the script has imported. `dir` may not exist on this machine. */
static void add_wandb(struct strbuf *out, const struct run_message_opts *m, const char *dir)
{
    AUTO(free) char *used = xasprintf("%s/wandb-stand-in", dir), *module = NULL;
    AUTO(free) char *file = xasprintf("%s/config.yaml", dir), *config = realpath(file, NULL);
    bool stand_in = access(used, F_OK) == 0 && own_process_share(&module, "trial", NULL) == 0;
    if (!config || (!stand_in && !m->spec->wandb_real))
        return;
    add_variable(out, "WANDB_SWEEP_PARAM_PATH", config);
    if (!stand_in)
        return;
    add_variable(out, "WANDB_SWEEP_ID", m->sweep);
    add_variable(out, "PYTHONPATH", module);
    strbuf_puts(out, "\"${PYTHONPATH:+:$PYTHONPATH}\"");
}

void sweep_print_command(struct strbuf *out, const struct run_message_opts *m, const char *dir,
                         char *const *argv)
{
    const struct resources *need = &m->spec->need;
    strbuf_printf(out, "drover run -np %d", need->nodes * need->ranks);
    if (need->nodes > 1)
        strbuf_printf(out, " -N %d", need->ranks);
    if (need->cpus > 0)
        strbuf_printf(out, " --cpus-per-rank %d", need->cpus);
    if (need->gpus > 0 && need->nodes == 1) {
        int gpus = (int)ceil(need->gpus);
        strbuf_puts(out, " --gpus 0");
        for (int i = 1; i < gpus; i++)
            strbuf_printf(out, ",%d", i);
        if (gpus < need->ranks)
            strbuf_puts(out, " --oversubscribe");
    }
    if (dir)
        add_wandb(out, m, dir);
    strbuf_puts(out, " -- ");
    progress_text_shell(out, argv);
}

int sweep_print_trial_command(struct strbuf *out, const struct run_message_opts *m,
                              const struct sweep_columns *c, size_t trial,
                              enum sweep_print_for reader, struct err *e)
{
    bool hides = reader == SWEEP_PRINT_FOR_OTHERS;
    json_t *all = sweep_columns_params_json(c, trial);
    AUTO(json) json_t *params = hides ? redact_json(NULL, all) : all;
    AUTO(strv) char **argv = NULL, **shown = NULL;
    AUTO(free) char *root = trial_dir_path(m->dir, (int)trial);
    int64_t lease = c->trials[trial].lease;
    AUTO(free) char *dir = lease > 0 ? xasprintf("%s/%lld", root, (long long)lease) : NULL;
    int rc = run_message_argv(&argv, m, (int)trial, params, e);
    if (rc < 0)
        return rc;
    shown = hides ? redact_argv(argv) : NULL;
    sweep_print_command(out, m, dir, hides ? shown : argv);
    return 0;
}

void sweep_print_best(struct strbuf *out, const struct run_message_opts *m,
                      const struct sweep_columns *c, size_t best)
{
    AUTO(json) json_t *params = sweep_columns_params_json(c, best);
    AUTO(strbuf) struct strbuf command = {0};
    const char *metric = m->spec->metrics[0].name;
    strbuf_printf(out, "best: trial %zu, %s %.6g: ", best, metric ? metric : "value",
                  sweep_columns_score(c, best));
    progress_text_params(out, params, NULL);
    if (sweep_print_trial_command(&command, m, c, best, SWEEP_PRINT_TO_PASTE, NULL) == 0)
        strbuf_printf(out, "\n  %s", strbuf_str(&command));
    strbuf_putc(out, '\n');
}

/* ---- curves --------------------------------------------------------------------------------- */

/* Sets means[i] to the mean of the points in the i-th of `width` equal parts of the steps from
 * `from` to `to`; NAN: there are none. */
static void mean_columns(double *means, int width, const struct trial_curve *curve, double from,
                         double to)
{
    AUTO(free) int *counts = xcalloc((size_t)width, sizeof *counts);
    for (int i = 0; i < width; i++)
        means[i] = 0;
    for (size_t i = 0; i < curve->count; i++) {
        const struct trial_point *p = &curve->points[i];
        int at = to > from ? (int)((p->step - from) / (to - from) * (width - 1) + 0.5) : 0;
        means[at] += p->value;
        counts[at]++;
    }
    for (int i = 0; i < width; i++)
        means[i] = counts[i] > 0 ? means[i] / counts[i] : (double)NAN;
}

struct range {
    double low, high;
};

static void widen(struct range *r, double x)
{
    if (isnan(x))
        return;
    r->low = isnan(r->low) || x < r->low ? x : r->low;
    r->high = isnan(r->high) || x > r->high ? x : r->high;
}

/* Returns the level of x, from 0 to levels - 1. */
static int level_of(double x, struct range r, int levels)
{
    return r.high > r.low ? (int)((x - r.low) / (r.high - r.low) * (levels - 1) + 0.5) : 0;
}

void sweep_print_plot(struct strbuf *out, const struct trial_curve *curve, int width, int height)
{
    if (curve->count < 2)
        return;
    double from = curve->points[0].step, to = curve->points[curve->count - 1].step;
    AUTO(free) double *means = xcalloc((size_t)width, sizeof *means);
    struct range r = {NAN, NAN};
    mean_columns(means, width, curve, from, to);
    for (int i = 0; i < width; i++)
        widen(&r, means[i]);
    for (int row = height - 1; row >= 0; row--) {
        if (row == height - 1 || row == 0)
            strbuf_printf(out, "%12.6g |", row ? r.high : r.low);
        else
            strbuf_printf(out, "%12s |", "");
        int blanks = 0;
        for (int i = 0; i < width; i++) {
            bool marked = !isnan(means[i]) && level_of(means[i], r, height) == row;
            if (marked)
                strbuf_printf(out, "%*s*", blanks, "");
            blanks = marked ? 0 : blanks + 1;
        }
        strbuf_putc(out, '\n');
    }
    AUTO(free) char *last = xasprintf("%.6g", to);
    strbuf_printf(out, "%12s  %-*.6g%s\n", "step", width - (int)strlen(last), from, last);
}

static void print_spark(struct strbuf *out, const struct trial_curve *curve, double to,
                        struct range r, int width)
{
    static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    AUTO(free) double *means = xcalloc((size_t)width, sizeof *means);
    mean_columns(means, width, curve, 0, to);
    int last = width - 1;
    while (last > 0 && isnan(means[last]))
        last--;
    for (int i = 0; i <= last; i++) { /* between two points, the curve has the value of the first */
        means[i] = isnan(means[i]) && i > 0 ? means[i - 1] : means[i];
        strbuf_puts(out, isnan(means[i]) ? " " : bars[level_of(means[i], r, COUNT_OF(bars))]);
    }
}

static const struct trial_curve *curve_of(const struct sweep_columns *c, const struct spec *spec,
                                          size_t trial)
{
    const char *name = spec->metrics[0].name;
    const struct columns_metric *m = name ? sweep_columns_metric(c, trial, name) : NULL;
    return m ? &m->curve : NULL;
}

void sweep_print_curves(struct strbuf *out, const struct sweep_columns *c, const struct spec *spec,
                        const json_t *trials, int width)
{
    struct range r = {NAN, NAN};
    double to = 0;
    size_t i;
    json_t *t;
    json_array_foreach (trials, i, t) {
        const struct trial_curve *curve =
            curve_of(c, spec, (size_t)json_integer_value(json_object_get(t, "id")));
        for (size_t k = 0; curve && k < curve->count; k++) {
            widen(&r, curve->points[k].value);
            to = curve->points[k].step > to ? curve->points[k].step : to;
        }
    }
    json_array_foreach (trials, i, t) {
        size_t id = (size_t)json_integer_value(json_object_get(t, "id"));
        const struct trial_curve *curve = curve_of(c, spec, id);
        double score = sweep_columns_score(c, id);
        AUTO(free) char *value = isnan(score) ? xstrdup("-") : xasprintf("%.6g", score);
        strbuf_printf(out, "trial %-5zu %-9s %12s", id, trial_state_name(c->trials[id].state),
                      value);
        strbuf_puts(out, curve && curve->count > 0 ? "  " : "");
        if (curve && curve->count > 0)
            print_spark(out, curve, to, r, width);
        strbuf_putc(out, '\n');
    }
    if (!isnan(r.low))
        strbuf_printf(out, "%s from %.6g to %.6g, steps from 0 to %.6g\n", spec->metrics[0].name,
                      r.low, r.high, to);
}

/* ---- one trial ------------------------------------------------------------------------------ */

static const char *text_at(const struct sweep_columns *c, int number)
{
    return text_table_at(&c->texts, number);
}

/* Appends a parameter's value; strings without quotes. */
static void add_param(struct strbuf *out, struct columns_value v, const struct sweep_columns *c)
{
    if (v.kind == COLUMNS_INTEGER) {
        strbuf_printf(out, "%.0f", v.number);
    } else if (v.kind == COLUMNS_REAL) {
        number_format(out, v.number);
    } else if (v.kind == COLUMNS_JSON) {
        const char *json = text_at(c, v.json);
        AUTO(json) json_t *text = json_scan_value(json, strlen(json));
        strbuf_puts(out, json_is_string(text) ? json_string_value(text) : json);
    }
}

static void add_time(struct strbuf *out, int64_t ms)
{
    char text[32] = "-";
    time_t s = (time_t)(ms / 1000);
    struct tm tm;
    if (ms > 0 && localtime_r(&s, &tm))
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
    strbuf_printf(out, "%-19s", text);
}

static void print_leases(struct strbuf *out, const struct sweep_columns *c, size_t trial)
{
    size_t count = c->lease_count, width = strlen("worker"), node_width = strlen("node");
    const struct columns_lease *all = c->leases;
    for (size_t i = 0; i < count; i++) {
        const char *worker = text_at(c, all[i].worker), *node = text_at(c, all[i].node);
        if ((size_t)all[i].trial != trial)
            continue;
        width = worker && strlen(worker) > width ? strlen(worker) : width;
        node_width = node && strlen(node) > node_width ? strlen(node) : node_width;
    }
    strbuf_printf(out, "leases\n  %5s  %-*s  %-*s  %-19s  %-19s  %s\n", "lease", (int)node_width,
                  "node", (int)width, "worker", "begin", "end", "why");
    for (size_t i = 0; i < count; i++) {
        const struct columns_lease *l = &all[i];
        const char *node = text_at(c, l->node), *why = text_at(c, l->why);
        if ((size_t)l->trial != trial)
            continue;
        strbuf_printf(out, "  %5zu  %-*s  %-*s  ", i + 1, (int)node_width, node ? node : "-",
                      (int)width, text_at(c, l->worker));
        add_time(out, l->begin_ms);
        strbuf_puts(out, "  ");
        add_time(out, l->end_ms);
        strbuf_printf(out, "  %s\n", why ? why : l->end_ms ? "ended by itself" : "runs");
    }
}

static void print_params(struct strbuf *out, const struct sweep_columns *c, size_t trial)
{
    strbuf_puts(out, "parameters\n");
    for (size_t i = 0; i < c->param_count; i++) {
        struct columns_value v = sweep_columns_value(c, i, trial);
        if (v.kind == COLUMNS_ABSENT)
            continue;
        AUTO(strbuf) struct strbuf value = {0};
        add_param(&value, v, c);
        strbuf_puts(out, "  ");
        utf8_add_line(out, c->params[i].name);
        strbuf_puts(out, "  ");
        utf8_add_line(out, strbuf_str(&value));
        strbuf_putc(out, '\n');
    }
}

static void print_metrics(struct strbuf *out, const struct sweep_columns *c,
                          const struct spec *spec, size_t trial)
{
    const struct columns_trial *t = &c->trials[trial];
    const struct trial_curve *curve = curve_of(c, spec, trial);
    if (t->metric_count > 0)
        strbuf_puts(out, "metrics, the last values\n");
    for (int i = 0; i < t->metric_count; i++) {
        strbuf_puts(out, "  ");
        utf8_add_line(out, text_at(c, t->metrics[i].name));
        strbuf_printf(out, "  %.6g\n", t->metrics[i].last);
    }
    if (!curve || curve->count < 2)
        return;
    strbuf_printf(out, "curve of %s, %zu point%s\n", spec->metrics[0].name, curve->count,
                  plural_s((long long)curve->count));
    sweep_print_plot(out, curve, PLOT_WIDTH, PLOT_HEIGHT);
}

void sweep_print_trial(struct strbuf *out, const struct sweep_columns *c, const struct spec *spec,
                       size_t trial)
{
    const struct columns_trial *t = &c->trials[trial];
    double score = sweep_columns_score(c, trial);
    const char *error = text_at(c, t->error), *why = text_at(c, t->why);
    enum stop_reason reason = stop_reason_parse(why);
    strbuf_printf(out, "trial %zu  %s", trial, trial_state_name(t->state));
    if (trial_is_ended(t->state) && trial_has_signal(t->state) && !sweep_columns_feasible(c, trial))
        strbuf_puts(out, ", infeasible");
    if (!isnan(score))
        strbuf_printf(out, "  %s %.6g", spec->metrics[0].name ? spec->metrics[0].name : "value",
                      score);
    if (t->seconds > 0)
        strbuf_printf(out, "  %.1f s", t->seconds);
    strbuf_putc(out, '\n');
    if (error || why)
        strbuf_puts(out, "reason: ");
    if (error)
        utf8_add_line(out, error);
    else if (why && reason == STOP_REASON_EARLY)
        strbuf_printf(out, "stopped early by %s", why);
    else if (why)
        strbuf_puts(out, stop_reason_text(reason));
    if (error || why)
        strbuf_putc(out, '\n');
    print_params(out, c, trial);
    print_metrics(out, c, spec, trial);
    print_leases(out, c, trial);
}

json_t *sweep_print_trial_json(const struct sweep_columns *c, size_t trial)
{
    json_t *o = sweep_columns_trial_json(c, trial), *leases = json_array();
    for (size_t i = 0; i < c->lease_count; i++) {
        const struct columns_lease *l = &c->leases[i];
        if ((size_t)l->trial != trial)
            continue;
        json_t *lease = json_pack("{s:I, s:s?, s:s, s:I, s:s*}", "lease", (json_int_t)i + 1, "node",
                                  text_at(c, l->node), "worker", text_at(c, l->worker), "begin_ms",
                                  (json_int_t)l->begin_ms, "why", text_at(c, l->why));
        if (l->end_ms)
            json_object_set_new(lease, "end_ms", json_integer(l->end_ms));
        json_array_append_new(leases, lease);
    }
    json_object_set_new(o, "curves", sweep_columns_curves_json(c, trial));
    json_object_set_new(o, "leases", leases);
    return o;
}

/* ---- CSV ------------------------------------------------------------------------------------ */

/* A field is quoted if it has a character with a meaning. */
static void add_field(struct strbuf *out, const char *text)
{
    text = text ? text : "";
    bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    if (quoted)
        strbuf_putc(out, '"');
    for (; *text; text++) {
        if (*text == '"')
            strbuf_putc(out, '"');
        strbuf_putc(out, *text);
    }
    if (quoted)
        strbuf_putc(out, '"');
}

/* Takes over the reference to `value`. */
static void add_json(struct strbuf *out, json_t *value)
{
    AUTO(json) json_t *held = value;
    AUTO(free) char *text = json_line(held);
    strbuf_putc(out, ',');
    add_field(out, text);
}

/* The names of all metrics of any trial, in the order of their first appearance: numbers in
 * `texts`. The caller frees the list. */
static int *metric_names(const struct sweep_columns *c, int *count)
{
    int *names = NULL, n = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct columns_trial *t = &c->trials[i];
        for (int k = 0; k < t->metric_count; k++) {
            int at = 0;
            while (at < n && names[at] != t->metrics[k].name)
                at++;
            if (at < n)
                continue;
            names = xrealloc(names, (size_t)n + 1, sizeof *names);
            names[n++] = t->metrics[k].name;
        }
    }
    *count = n;
    return names;
}

/* `sweep`: the cells that all rows share. */
static void add_row(struct strbuf *out, const struct sweep_columns *c, size_t trial,
                    const int *names, int name_count, const char *sweep)
{
    const struct columns_trial *t = &c->trials[trial];
    double score = sweep_columns_score(c, trial);
    strbuf_printf(out, "%zu,%s,", trial, trial_state_name(t->state));
    if (!isnan(score))
        number_format(out, score);
    const struct columns_metric *own = sweep_columns_find_metric(t, c->metric);
    for (int i = 0; i < name_count; i++) {
        const struct columns_metric *m = sweep_columns_metric(c, trial, text_at(c, names[i]));
        strbuf_putc(out, ',');
        if (m && m->is_integer)
            strbuf_printf(out, "%.0f", m->last);
        else if (m)
            number_format(out, m->last);
    }
    strbuf_printf(out, ",%zu%s,", own ? own->curve.count : 0,
                  c->spec->outcomes.count == 0       ? ""
                  : sweep_columns_feasible(c, trial) ? ",true"
                                                     : ",false");
    number_format(out, t->seconds);
    const int texts[] = {t->node, t->why, t->error};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        strbuf_putc(out, ',');
        add_field(out, text_at(c, texts[i]));
    }
    strbuf_puts(out, sweep);
    for (size_t i = 0; i < c->param_count; i++) {
        struct columns_value v = sweep_columns_value(c, i, trial);
        AUTO(strbuf) struct strbuf text = {0};
        AUTO(json) json_t *value = v.kind == COLUMNS_ABSENT ? NULL : sweep_columns_value_json(c, v);
        if (value)
            param_text_add(&text, value);
        strbuf_putc(out, ',');
        add_field(out, strbuf_str(&text));
    }
    strbuf_puts(out, "\n");
}

void sweep_print_csv(FILE *out, const struct sweep_columns *c)
{
    int count;
    AUTO(free) int *names = metric_names(c, &count);
    AUTO(strbuf) struct strbuf b = {0}, sweep = {0};
    bool bounded = c->spec->outcomes.count > 0;
    add_json(&sweep, spec_goals_json(c->spec));
    if (bounded)
        add_json(&sweep, spec_outcomes_json(&c->spec->outcomes));
    strbuf_puts(&b, "trial,state,value");
    for (int i = 0; i < count; i++) {
        strbuf_putc(&b, ',');
        add_field(&b, text_at(c, names[i]));
    }
    strbuf_printf(&b, ",steps%s,seconds,node,why,error,goals%s", bounded ? ",feasible" : "",
                  bounded ? ",outcome_constraints" : "");
    for (size_t i = 0; i < c->param_count; i++) {
        strbuf_putc(&b, ',');
        add_field(&b, c->params[i].name);
    }
    strbuf_putc(&b, '\n');
    for (size_t i = 0; i < c->count; i++) {
        add_row(&b, c, i, names, count, strbuf_str(&sweep));
        fputs(strbuf_str(&b), out);
        strbuf_reset(&b);
    }
    fputs(strbuf_str(&b), out);
}
