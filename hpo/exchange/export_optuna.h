/* export_optuna - writes a sweep as a study in Optuna's SQLite file, which Optuna 3.2 and later and
 * optuna-dashboard open. */
#ifndef DROVER_EXPORT_OPTUNA_H
#define DROVER_EXPORT_OPTUNA_H

#include "common/err.h"
#include "hpo/exchange/export_params.h"
#include "hpo/reader/sweep_reader.h"

/* Writes the study with the sweep's name into a new file. On failure no file is left.
 *   -EEXIST   the file exists
 *   -ENODATA  the sweep has no metric, and so no direction
 *   -EIO      SQLite cannot write; the message has its text */
int export_optuna_write(const char *path, const struct sweep_reader *v,
                        const struct export_params *p, struct err *e);

#endif
