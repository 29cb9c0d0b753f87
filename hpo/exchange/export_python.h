/* export_python - hands a sweep to drover_export.py, which writes the formats of other tools with
 * these tools' own libraries. */
#ifndef DROVER_EXPORT_PYTHON_H
#define DROVER_EXPORT_PYTHON_H

#include "common/err.h"
#include "hpo/exchange/export_params.h"
#include "hpo/reader/sweep_reader.h"

/* Runs `$DROVER_PYTHON`, or python3, with the module, and writes the header and the lines of
 * export_lines.h to its stdin. `format`: parquet, tensorboard, wandb or mlflow. `target`: the file
 * or directory. What the module prints goes to stderr.
 *   -ENOENT     there is no Python
 *   -ECHILD     the module failed; it has said why on stderr
 *   -errno      the module cannot be started or does not read its input */
int export_python_write(const char *format, const char *target, const struct sweep_reader *v,
                        const struct export_params *p, struct err *e);

#endif
