/* cmd_export - `drover export NAME`: writes the trials of a sweep in the formats of other tools. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/file.h"
#include "common/json.h"
#include "hpo/cmd/hpo_commands.h"
#include "hpo/cmd/sweep_print.h"
#include "hpo/exchange/exchange_lines.h"
#include "hpo/exchange/exchange_python.h"

struct export_options {
    const char *root;
    const char *csv, *jsonl, *optuna, *parquet, *tensorboard, *wandb, *mlflow;
};

static const struct opt options[] = {
    OPT_STR(0, "csv", "FILE", "one line per trial, as `sweep show --csv`; -: stdout",
            struct export_options, csv),
    OPT_STR(0, "jsonl", "FILE", "one JSON object per trial, with its curves; -: stdout",
            struct export_options, jsonl),
    OPT_STR(0, "optuna", "FILE", "a study in a new SQLite file (needs Python's optuna)",
            struct export_options, optuna),
    OPT_STR(0, "parquet", "FILE", "a table (needs Python's pyarrow)", struct export_options,
            parquet),
    OPT_STR(0, "tensorboard", "DIR", "one run per trial, for HParams (needs Python's tensorboard)",
            struct export_options, tensorboard),
    OPT_STR(0, "wandb", "DIR", "one offline run per trial (needs Python's wandb)",
            struct export_options, wandb),
    OPT_STR(0, "mlflow", "DIR", "one run per trial (needs Python's mlflow)", struct export_options,
            mlflow),
    OPT_STR(0, "dir", "D", "directory of all sweeps (default: sweeps)", struct export_options,
            root),
    OPT_END,
};

static int write_csv(FILE *out, const struct sweep_columns *c)
{
    sweep_print_csv(out, c);
    return fflush(out) == 0 && !ferror(out) ? 0 : -EIO;
}

/* Writes what `write` prints to a file, which has its old content or all of the new one. */
static int write_text(const char *path, int (*write)(FILE *, const struct sweep_columns *),
                      const struct sweep_columns *c, struct err *e)
{
    if (strcmp(path, "-") == 0)
        return write(stdout, c) == 0 ? 0 : err_set(e, -EIO, "stdout: cannot be written");
    AUTO(free) char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    int rc = f ? write(f, c) : -errno;
    if (f && fclose(f) != 0 && rc == 0)
        rc = -errno;
    rc = rc == 0 ? file_replace_durably(path, text, len, 0) : rc;
    return rc == 0 ? 0 : err_set(e, -EIO, "%s: %s", path, strerror(-rc));
}

struct input {
    const struct sweep_reader *v;
    json_t *header;
};

static int write_input(FILE *to, const void *arg)
{
    const struct input *in = arg;
    AUTO(free) char *line = json_line(in->header);
    return fprintf(to, "%s\n", line) < 0 ? -errno : exchange_lines_write(to, in->v->columns);
}

static int write_by_python(const char *format, const char *target, const struct sweep_reader *v,
                           struct err *e)
{
    AUTO(json) json_t *header = exchange_lines_header(v);
    AUTO(strbuf) struct strbuf answer = {0};
    const struct input in = {v, header};
    return exchange_python_run(
        &answer,
        &(struct exchange_python){
            .way = "export", .format = format, .place = target, .write = write_input, .arg = &in},
        e);
}

static int write_all(const struct export_options *o, const struct sweep_reader *v, struct err *e)
{
    const struct {
        const char *format, *target;
    } python[] = {{"optuna", o->optuna},
                  {"parquet", o->parquet},
                  {"tensorboard", o->tensorboard},
                  {"wandb", o->wandb},
                  {"mlflow", o->mlflow}};
    if (o->optuna && v->spec->metric_count == 0)
        return err_set(e, -ENODATA, "sweep '%s' has no metric, which a study of Optuna needs",
                       v->dir->name);
    int rc = o->csv ? write_text(o->csv, write_csv, v->columns, e) : 0;
    if (rc == 0 && o->jsonl)
        rc = write_text(o->jsonl, exchange_lines_write, v->columns, e);
    for (size_t i = 0; rc == 0 && i < COUNT_OF(python); i++)
        if (python[i].target)
            rc = write_by_python(python[i].format, python[i].target, v, e);
    return rc;
}

static int run(char **words, void *into, struct err *e)
{
    const struct export_options *o = into;
    if (!o->csv && !o->jsonl && !o->optuna && !o->parquet && !o->tensorboard && !o->wandb &&
        !o->mlflow) {
        err_set(e, -EINVAL, "no format given");
        AUTO(free) char *csv = sweep_dir_command("drover export --csv -", o->root, words[0]);
        return err_hint(e, "%s", csv);
    }
    AUTO(sweep_reader) struct sweep_reader *v = NULL;
    int rc = sweep_reader_open(&v, o->root, words[0], e);
    return rc == 0 ? write_all(o, v, e) : rc;
}

int cmd_export(int argc, char **argv)
{
    static const struct command command = {
        .help = {"drover export", "NAME [--csv FILE] [--optuna FILE] …",
                 "Writes the trials of a sweep in the formats of other tools. Several formats "
                 "may be given at once. A sweep that runs is exported as it is now.",
                 "drover export digits --csv trials.csv\ndrover export digits --optuna study.db\n"
                 "drover export digits --tensorboard runs"},
        .options = options,
        HPO_COMMAND_SWEEP(1),
        .run = run};
    struct export_options o = {.root = "sweeps"};
    return command_run(&command, &o, argc, argv);
}
