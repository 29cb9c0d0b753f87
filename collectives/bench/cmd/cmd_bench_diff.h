/* cmd_bench_diff - `drover bench diff A B`, and the files of --save and --baseline.
 *
 * The files are documents of --json:
 * ${XDG_DATA_HOME:-~/.local/share}/drover/bench/CLUSTER/OP-NAME.json; CLUSTER is the first node's
 * name and a hash of all nodes, devices and the number of ranks. */
#pragma once

#include <jansson.h>

#include "collectives/bench/bench_report.h"
#include "common/err.h"

/* Runs `drover bench diff`; argv[0] is "diff". Returns the exit status: 1 if a row of B is worse, 2
 * if the documents cannot be compared. */
int cmd_bench_diff(int argc, char **argv);

/* Appends a table that compares two documents. Returns the number of rows that are worse.
 *   -EINVAL   the documents differ in collective, backend, ranks or groups
 *   -ENODATA  no row in common has single iterations */
int cmd_bench_diff_show(struct strbuf *out, const json_t *before, const json_t *after,
                        double tolerance, struct err *e);

/* Returns the path of the saved result NAME for this cluster; the caller frees it. */
char *cmd_bench_diff_path(const char *name, const char *coll,
                          const struct bench_report_device *devices, int ranks);
/* Writes the document and creates the directories. */
int cmd_bench_diff_save(const char *path, const char *document, struct err *e);
int cmd_bench_diff_load(json_t **out, const char *path, struct err *e);

/* Parses "5%" or "0.05" as 0.05. `what` names the option in messages.
 *   -EINVAL  not a number, below 0 or above 10 */
int cmd_bench_diff_parse_share(double *out, const char *what, const char *text, struct err *e);
