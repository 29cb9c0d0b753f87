/* cmd_import - `drover import`: stores the trials of another tool as a sweep, from which others can
 * learn. */
#include <errno.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/file.h"
#include "common/json.h"
#include "common/plural.h"
#include "hpo/cmd/hpo_commands.h"
#include "hpo/exchange/exchange_lines.h"
#include "hpo/exchange/exchange_python.h"
#include "hpo/space/space.h"
#include "hpo/store/stored_sweep.h"
#include "hpo/store/sweep_dir.h"

enum { LINES_BYTES_MAX = 1 << 30 };

struct import_options {
    const char *root, *name, *goal, *study;
    const char *optuna, *csv, *wandb, *jsonl;
    char **metrics, **params;
};

static int read_params(void *into, char *const *values, struct err *e)
{
    struct import_options *o = into;
    AUTO(free) char *text = xstrdup(values[0]);
    char *rest = text;
    for (char *word; (word = strsep(&rest, ","));)
        if (*word)
            strv_push(&o->params, xstrdup(word));
    return o->params ? 0 : err_set(e, -EINVAL, "--params '%s': no name", values[0]);
}

static const struct opt options[] = {
    OPT_STR(0, "optuna", "FILE", "a study of Optuna (SQLite; needs Python's optuna)",
            struct import_options, optuna),
    OPT_STR(0, "csv", "FILE", "a table with one row per trial", struct import_options, csv),
    OPT_STR(0, "wandb", "FILE", "runs of W&B, as CSV or JSON", struct import_options, wandb),
    OPT_STR(0, "jsonl", "FILE", "lines of `drover export --jsonl`", struct import_options, jsonl),
    OPT_STRV(0, "metric", "NAME", "a metric of the trials; the first one counts",
             struct import_options, metrics),
    OPT_STR(0, "goal", "GOAL", "minimize or maximize (default: minimize, or as the study)",
            struct import_options, goal),
    OPT_CALL(0, "params", "A,B,…",
             "the parameters (default: what is not known to be another thing)", read_params),
    OPT_STR(0, "study", "NAME", "which study of Optuna's file", struct import_options, study),
    OPT_STR(0, "name", "NAME", "name of the sweep (default: that of the file)",
            struct import_options, name),
    OPT_STR(0, "dir", "D", "directory of all sweeps (default: sweeps)", struct import_options,
            root),
    OPT_END,
};

/* ---- reading the trials --------------------------------------------------------------------- */

/* The format that was given; there must be one. */
static int find_format(const char **format, const char **path, const struct import_options *o,
                       struct err *e)
{
    const struct {
        const char *name, *path;
    } formats[] = {
        {"optuna", o->optuna}, {"csv", o->csv}, {"wandb", o->wandb}, {"jsonl", o->jsonl}};
    int count = 0;
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        if (!formats[i].path)
            continue;
        *path = formats[i].path;
        *format = formats[i].name;
        count++;
    }
    if (count == 1)
        return 0;
    err_set(e, -EINVAL, count ? "more than one file given" : "no file given");
    return err_hint(e, "drover import --optuna study.db");
}

static bool maximizes(const struct import_options *o)
{
    return o->goal && strcmp(o->goal, "maximize") == 0;
}

/* drover's own lines. */
static int read_lines(struct import_trials *t, size_t *unfinished, const char *path,
                      const struct import_options *o, struct err *e)
{
    AUTO(strbuf) struct strbuf text = {0};
    int rc = file_read(&text, path, LINES_BYTES_MAX);
    if (rc < 0)
        return err_set(e, rc, "%s: %s", path, strerror(-rc));
    for (char **name = o->metrics; rc == 0 && name && *name; name++)
        rc = import_trials_add_metric(t, *name, false, e);
    if (rc < 0)
        return err_wrap(e, "--metric");
    rc = exchange_lines_read(t, unfinished, strbuf_str(&text), text.len, false, e);
    for (int i = 0; o->goal && i < t->metric_count; i++)
        t->metrics[i].maximize = maximizes(o);
    return rc < 0 ? err_wrap(e, "%s", path) : 0;
}

static json_t *strv_json(char *const *v)
{
    json_t *list = json_array();
    for (; v && *v; v++)
        json_array_append_new(list, json_text(*v));
    return list;
}

static int read_by_python(struct import_trials *t, size_t *unfinished, const char *format,
                          const char *path, const struct import_options *o, struct err *e)
{
    AUTO(strbuf) struct strbuf text = {0};
    AUTO(json)
    json_t *given =
        json_pack("{s:o, s:o*, s:s*, s:s*}", "metrics", strv_json(o->metrics), "params",
                  o->params ? strv_json(o->params) : NULL, "goal", o->goal, "study", o->study);
    AUTO(free) char *more = json_line(given);
    int rc = exchange_python_run(
        &text,
        &(struct exchange_python){.way = "import", .format = format, .place = path, .more = more},
        e);
    return rc < 0 ? rc : exchange_lines_read(t, unfinished, strbuf_str(&text), text.len, true, e);
}

/* ---- storing them as a sweep ---------------------------------------------------------------- */

struct writer {
    struct event_store *store;
    struct err *e;
    int trial;
    int64_t lease, now_ms;
};

/* Takes over the reference to `data`. */
static int append(struct writer *w, enum scheduler_record_kind kind, int64_t at_ms, int64_t lease,
                  json_t *data)
{
    const struct scheduler_record r = {kind, at_ms, w->trial, lease, data};
    int rc = event_store_append(w->store, &r, 0, w->e);
    json_decref(data);
    return rc;
}

static int64_t time_of(const json_t *trial, const char *key, int64_t otherwise)
{
    int64_t ms = json_integer_value(json_object_get(trial, key));
    return ms > 0 ? ms : otherwise;
}

static int by_step(const void *a, const void *b)
{
    double x = json_number_value(json_array_get(*(json_t *const *)a, 0));
    double y = json_number_value(json_array_get(*(json_t *const *)b, 0));
    return x < y ? -1 : x > y;
}

static json_t *sorted(const json_t *by_text)
{
    size_t n = json_object_size(by_text), i = 0;
    json_t **rows = xcalloc(n + 1, sizeof *rows), *row, *list = json_array();
    const char *key;
    json_object_foreach ((json_t *)by_text, key, row)
        rows[i++] = row;
    qsort(rows, n, sizeof *rows, by_step);
    for (i = 0; i < n; i++)
        json_array_append(list, rows[i]);
    free(rows);
    return list;
}

static void add_value(json_t *by_text, double step, const char *name, json_t *value)
{
    char key[32];
    snprintf(key, sizeof key, "%.17g", step);
    json_t *row = json_object_get(by_text, key);
    if (!row)
        json_object_set_new(by_text, key, row = json_pack("[f,{}]", step));
    json_object_set(json_array_get(row, 1), name, value);
}

/* Returns the last step at which the curve has this value; NAN: it has it nowhere. */
static double step_of(const json_t *curve, const json_t *value)
{
    double step = NAN;
    for (size_t i = json_array_size(curve); i-- > 0 && isnan(step);) {
        const json_t *point = json_array_get(curve, i);
        if (json_is_number(value) &&
            json_number_value(json_array_get(point, 1)) == json_number_value(value))
            (void)json_as_number(&step, json_array_get(point, 0)); /* else NAN */
    }
    return step;
}

/* Returns the reports of a trial as a list of [step, values] (new reference). The curves come
 * first, in the order of steps, and what has no curve, at the last step. A last value that is an
 * earlier point is reported again. `best`: the value of this metric, NULL: none, is the best
 * report; if its point was replaced, it comes first. */
static json_t *reports_of(const json_t *trial, const char *best)
{
    AUTO(json) json_t *by_text = json_object(), *again = json_array();
    json_t *curves = json_object_get(trial, "curves"), *curve, *point, *value;
    const char *name;
    size_t i;
    double step, last = 0;
    json_object_foreach (curves, name, curve)
        json_array_foreach (curve, i, point) {
            if (json_as_number(&step, json_array_get(point, 0)) < 0)
                continue;
            add_value(by_text, step, name, json_array_get(point, 1));
            last = step > last ? step : last;
        }
    json_object_foreach (json_object_get(trial, "metrics"), name, value) {
        curve = json_object_get(curves, name);
        size_t n = json_array_size(curve);
        step = step_of(curve, value);
        if (n > 0 && json_equal(json_array_get(json_array_get(curve, n - 1), 1), value))
            continue;
        if (!isnan(step))
            json_array_append_new(again, json_pack("[f,{s:O}]", step, name, value));
        else /* a curve has no point that is not finite */
            add_value(by_text, n > 0 && !json_is_number(value) ? last + 1 : last, name, value);
    }
    json_t *list = sorted(by_text);
    json_array_extend(list, again);
    value = json_object_get(trial, "value");
    curve = best ? json_object_get(curves, best) : NULL;
    if (json_is_number(value) && json_array_size(curve) > 0 && isnan(step_of(curve, value)))
        json_array_insert_new(
            list, 0,
            json_pack("[O,{s:O}]",
                      json_array_get(json_array_get(curve, json_array_size(curve) - 1), 0), best,
                      value));
    return list;
}

static int write_reports(struct writer *w, const struct import_trials *t, const json_t *trial,
                         int64_t begin_ms, int64_t end_ms)
{
    AUTO(json) json_t *rows = reports_of(trial, t->value_best ? t->metrics[0].name : NULL);
    size_t i, n = json_array_size(rows);
    json_t *row;
    int rc = 0;
    json_array_foreach (rows, i, row) {
        int64_t at_ms = begin_ms + (end_ms - begin_ms) * (int64_t)(i + 1) / (int64_t)n;
        if (rc == 0)
            rc = append(w, SCHEDULER_REC_REPORT, at_ms, w->lease,
                        json_pack("{s:O, s:O}", "step", json_array_get(row, 0), "values",
                                  json_array_get(row, 1)));
    }
    return rc;
}

static int write_trial(struct writer *w, const struct import_trials *t, const json_t *trial)
{
    int64_t end_ms = time_of(trial, "ended_ms", w->now_ms);
    int64_t begin_ms = time_of(trial, "leased_ms", end_ms);
    const char *node = json_string_value(json_object_get(trial, "node"));
    const char *error = json_string_value(json_object_get(trial, "error"));
    json_t *value = json_object_get(json_object_get(trial, "metrics"), t->metrics[0].name);
    if (t->value_best && json_is_number(json_object_get(trial, "value")))
        value = json_object_get(trial, "value");
    double seconds = json_number_value(json_object_get(trial, "seconds"));
    int rc = append(w, SCHEDULER_REC_CREATED, time_of(trial, "created_ms", begin_ms), 0,
                    json_pack("{s:O}", "params", json_object_get(trial, "params")));
    w->lease++;
    if (rc == 0)
        rc = append(w, SCHEDULER_REC_LEASED, begin_ms, w->lease,
                    json_pack("{s:s, s:s}", "worker", "import", "node", node ? node : "import"));
    if (rc == 0)
        rc = write_reports(w, t, trial, begin_ms, end_ms);
    if (rc == 0)
        rc = append(w, SCHEDULER_REC_ENDED, end_ms, w->lease,
                    json_pack("{s:O, s:o, s:f, s:s*}", "state", json_object_get(trial, "state"),
                              "value", json_is_number(value) ? json_incref(value) : json_null(),
                              "seconds", seconds, "error", error));
    w->trial++;
    return rc;
}

static int write_trials(struct sweep_dir *d, const struct import_trials *t, const char *source,
                        struct err *e)
{
    struct writer w = {.store = d->store, .e = e, .now_ms = (int64_t)time(NULL) * 1000};
    AUTO(free) char *ended = xasprintf("imported from %s", source);
    size_t i;
    json_t *trial;
    int rc = 0;
    json_array_foreach (t->trials, i, trial)
        if (rc == 0)
            rc = write_trial(&w, t, trial);
    if (rc == 0)
        rc = event_store_put(d->store, SWEEP_DIR_META_ENDED, ended, e);
    return rc == 0 ? event_store_commit(d->store, e) : rc;
}

/* Stores the trials as a sweep `name` below `root` that has ended. Stores nothing on failure. */
static int write_sweep(struct import_trials *t, const char *root, const char *name,
                       const char *source, struct err *e)
{
    AUTO(free) char *file = NULL, *known = NULL;
    AUTO(spec) struct spec *spec = NULL;
    int rc = import_trials_file(&file, t, name, e);
    if (rc == 0)
        rc = stored_sweep_spec(&spec, file, source, e);
    if (rc < 0)
        return rc;
    json_t *trial;
    size_t i;
    json_array_foreach (t->trials, i, trial)
        json_object_set_new(trial, "params",
                            space_form(spec->space, json_object_get(trial, "params")));
    if (sweep_dir_find(&known, root, name, NULL) == 0) {
        err_set(e, -EEXIST, "there is a sweep '%s' in '%s'", name, root);
        AUTO(free) char *rm = sweep_dir_command("drover sweep rm", root, name);
        return err_hint(e, "--name, or %s", rm);
    }
    AUTO(sweep_dir) struct sweep_dir *d = NULL;
    rc = sweep_dir_open(&d, &(struct sweep_dir_opts){.root = root, .name = name, .file = file}, e);
    return rc == 0 ? write_trials(d, t, source, e) : rc;
}

/* --name, or the file's name without its extension. The caller frees it. */
static char *name_of(const struct import_options *o, const char *path)
{
    AUTO(free) char *copy = xstrdup(path);
    char *base = basename(copy), *dot = strrchr(base, '.');
    if (dot && dot != base)
        *dot = 0;
    return o->name ? xstrdup(o->name) : sweep_dir_slug(base);
}

static int import_file(const struct import_options *o, struct import_trials *t, struct err *e)
{
    const char *format = NULL, *path = NULL;
    size_t unfinished = 0;
    int rc = find_format(&format, &path, o, e);
    if (rc == 0 && o->goal && !maximizes(o) && strcmp(o->goal, "minimize") != 0)
        rc = err_set(e, -EINVAL, "--goal '%s': minimize or maximize", o->goal);
    if (rc == 0)
        rc = o->jsonl ? read_lines(t, &unfinished, path, o, e)
                      : read_by_python(t, &unfinished, format, path, o, e);
    if (rc < 0)
        return rc;
    AUTO(free) char *name = name_of(o, path);
    if (!sweep_dir_name_ok(name))
        return err_set(e, -EINVAL, "--name '%s': 1 to %d letters, digits, '.', '_' and '-'", name,
                       SWEEP_DIR_NAME_MAX);
    rc = write_sweep(t, o->root, name, path, e);
    if (rc < 0)
        return rc;
    printf("%s: %zu trial%s", name, json_array_size(t->trials),
           plural_s((long long)json_array_size(t->trials)));
    if (unfinished > 0)
        printf("; %zu had not ended", unfinished);
    const char *renamed;
    json_t *was;
    json_object_foreach (t->renamed, renamed, was)
        printf("\n  parameter '%s' is %s here", renamed, json_string_value(was));
    AUTO(free) char *show = sweep_dir_command("drover sweep show", o->root, name);
    AUTO(free) char *prior = sweep_dir_command("drover sweep FILE --prior", o->root, name);
    printf("\n  %s\n  %s\n", show, prior);
    return 0;
}

static int run(char **no_words, void *into, struct err *e)
{
    struct import_options *o = into;
    struct import_trials t = {0};
    int rc = import_file(o, &t, e);
    import_trials_clear(&t);
    strv_free(o->metrics);
    strv_free(o->params);
    return rc;
}

int cmd_import(int argc, char **argv)
{
    static const struct command command = {
        .help = {"drover import", "--optuna FILE | --csv FILE | --wandb FILE | --jsonl FILE",
                 "Stores the trials of another tool as a sweep that has ended. `drover sweep "
                 "show` shows it, and `drover sweep FILE --prior NAME` learns from it.",
                 "drover import --optuna study.db\n"
                 "drover import --csv results.csv --metric val_loss --params lr,batch_size"},
        .options = options,
        .run = run};
    struct import_options o = {.root = "sweeps"};
    return command_run(&command, &o, argc, argv);
}
