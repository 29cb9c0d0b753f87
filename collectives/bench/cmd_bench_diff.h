/* cmd_bench_diff - `drover bench diff A B`, and what --save and --baseline keep of a bench.
 *
 * Kept are --json's documents, as
 * ${XDG_DATA_HOME:-~/.local/share}/drover/bench/CLUSTER/OP-NAME.json; CLUSTER is the first node's
 * name and a hash of all nodes, devices and the number of ranks. */
#ifndef DROVER_CMD_BENCH_DIFF_H
#define DROVER_CMD_BENCH_DIFF_H

#include <jansson.h>

#include "collectives/bench/bench_report.h"
#include "common/err.h"

/* argv[0] is "diff". Returns the exit status: 1 where B is worse, 2 where they cannot be compared.
 */
int cmd_bench_diff(int argc, char **argv);

/* Appends the table of two documents. Returns how many rows are worse, or -EINVAL, -ENODATA. */
int cmd_bench_diff_show(struct strbuf *out, const json_t *before, const json_t *after,
                        double tolerance, struct err *e);

/* Where NAME of such a bench lies; to be freed. */
char *cmd_bench_diff_path(const char *name, const char *coll,
                          const struct bench_report_device *devices, int ranks);
/* Makes the directories too. */
int cmd_bench_diff_save(const char *path, const char *document, struct err *e);
int cmd_bench_diff_load(json_t **out, const char *path, struct err *e);

/* "5%" or "0.05"; below 0 and above 10 is no share. */
int cmd_bench_diff_share(double *out, const char *what, const char *text, struct err *e);

#endif
