/* import_read - reads trials from the files of other tools. */
#ifndef DROVER_IMPORT_READ_H
#define DROVER_IMPORT_READ_H

#include "common/err.h"
#include "hpo/exchange/import_trials.h"

struct import_opts {
    const char *path;
    const char *study;   /* Optuna: the study's name; NULL: the only one */
    char *const *params; /* a strv: the parameters; NULL: all columns or keys that are not known to
                            be something else */
};

/* What a file had that is not a trial of `out`. */
struct import_skipped {
    size_t unfinished; /* trials that wait or run */
};

/* Read a file and add its trials to *out, which the caller clears also after a failure. The metrics
 * that *out has are read. Without any: the column "value" of CSV, the only metric of lines of JSON.
 * A study of Optuna has its own metrics and goals, to which *out may give names.
 *   -errno   the file cannot be read
 *   -EINVAL  it has another format, or lacks a column; or Optuna's file has several studies, and
 *            none was named (the hint lists them) */
int import_optuna_read(struct import_trials *out, struct import_skipped *skipped,
                       const struct import_opts *o, struct err *e);
int import_csv_read(struct import_trials *out, struct import_skipped *skipped,
                    const struct import_opts *o, struct err *e);
/* The runs of a project: CSV as W&B's page exports it, or JSON {"config", "summary", "state",
 * "history"?}, one object, a list, or one object per line. */
int import_json_read_wandb(struct import_trials *out, struct import_skipped *skipped,
                           const struct import_opts *o, struct err *e);
/* The lines of `drover export --jsonl`. */
int import_json_read_lines(struct import_trials *out, struct import_skipped *skipped,
                           const struct import_opts *o, struct err *e);

/* Reads a whole text file of at most IMPORT_BYTES_MAX; the caller frees *out. */
enum { IMPORT_BYTES_MAX = 1 << 30 };
int import_read_file(char **out, size_t *len, const char *path, struct err *e);

#endif
