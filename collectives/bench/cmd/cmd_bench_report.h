/* cmd_bench_report - `drover bench --report FILE`: the results as a file to mail. */
#pragma once

#include <jansson.h>

#include "common/err.h"

/* Writes the document of --json as HTML or Markdown. `argv` is the command line; secrets in it are
 * not shown.
 *   -EIO  the file cannot be written */
int cmd_bench_report(const char *path, const json_t *document, char *const *argv, struct err *e);
