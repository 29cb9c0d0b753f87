/* section_learning - time limits that follow from a program's earlier jobs with the same options:
 * the longest time in each section, out of sections and between heartbeats, multiplied by a factor,
 * as the clients of nvidia-resiliency-ext calculate them (`safety_factor`). */
#pragma once

#include "common/err.h"
#include "common/strbuf.h"
#include "launcher/watch/section_limits.h"

#define SECTION_LEARNING_FACTOR 5.0 /* the extension's default */

/* A limit is at least this long: a pause of the machine or of Python's garbage collector may be
 * many times as long as a short section. */
enum { SECTION_LEARNING_MIN_MS = 5000 };

/* Sets the limits that `limits` does not name from earlier jobs of a program (argv in `wdir`; NULL:
 * the present directory), and appends to `text` what it has set: "step 7.5 s, no section 30 s".
 * Appends nothing if no job is known. Errors are those of history_db_read(). */
int section_learning_read(struct section_limits *limits, struct strbuf *text, char *const *argv,
                          const char *wdir, double factor, struct err *e);

/* Remembers the longest times of a job. Errors are those of history_db_read(). */
int section_learning_store(const struct section_limits *longest, char *const *argv,
                           const char *wdir, struct err *e);
