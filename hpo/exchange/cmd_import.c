/* cmd_import - `drover import`: stores the trials of another tool as a sweep, from which others can
 * learn. */
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/json.h"
#include "common/plural.h"
#include "hpo/cmd/hpo_commands.h"
#include "hpo/exchange/exchange.h"
#include "hpo/exchange/exchange_lines.h"
#include "hpo/exchange/exchange_python.h"
#include "hpo/exchange/import_sweep.h"
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
    for (int i = 0; i < t->metric_count; i++)
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
    rc = import_sweep_write(t, o->root, name, path, e);
    if (rc < 0)
        return rc;
    printf("%s: %zu trial%s", name, json_array_size(t->trials),
           plural_s((long long)json_array_size(t->trials)));
    if (unfinished > 0)
        printf("; %zu had not ended", unfinished);
    printf("\n  drover sweep show %s\n  drover sweep FILE --prior %s\n", name, name);
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
