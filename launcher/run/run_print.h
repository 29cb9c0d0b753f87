/* run_print - makes the texts of `drover run` about a failure. */
#pragma once

#include "common/strbuf.h"
#include "launcher/engine/launch.h"
#include "launcher/plan/plan.h"
#include "launcher/watch/first_cause.h"

/* Appends a description of the first failure: the rank, how it ended, its last lines, and the
 * failure cause if it is known; then the same of another rank, if that one is the cause. `c` is the
 * cause of `end`. Appends nothing if no rank failed. `program` is the prefix of messages. */
void run_print_failure(struct strbuf *b, const char *program, const struct plan *p,
                       const struct job_end *end, const struct first_cause *c);

/* Copies the error text of the first failed rank to the file that the user has named in
 * TORCHELASTIC_ERROR_FILE, as torchrun does. Logs an error if the file cannot be written. */
void run_print_error_file(const struct job_end *end);
