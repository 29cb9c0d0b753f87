/* run_print - the text of `drover run` about a failure, a plan and its bindings. */
#ifndef DROVER_RUN_PRINT_H
#define DROVER_RUN_PRINT_H

#include <stdbool.h>

#include "common/strbuf.h"
#include "launcher/engine/launch.h"
#include "launcher/plan/plan.h"

/* Appends the first failure: its rank, how it ended, its last lines, and the failure cause if it is
 * known. Appends nothing if no rank failed. `program` is the prefix of messages. */
void run_print_failure(struct strbuf *b, const char *program, const struct plan *p,
                       const struct job_end *end);

/* Writes what the first failed rank has written to its error file to the file that the user named
 * by TORCHELASTIC_ERROR_FILE, as torchrun does. Logs a failure. */
void run_print_error_file(const struct job_end *end);

/* Appends the whole plan (--dry-run). */
void run_print_plan(struct strbuf *b, const struct plan *p, bool json);
/* Appends one line per rank (--report-bindings). */
void run_print_bindings(struct strbuf *b, const struct plan *p);

#endif
