/* history_sections - the longest times that the ranks of a program's earlier jobs have spent in
 * sections and between heartbeats, in history_db's file. At most HISTORY_DB_ROWS_MAX are kept. */
#pragma once

#include "common/err.h"
#include "launcher/jobs/history_command.h"
#include "launcher/watch/section_limits.h"

/* Adds the stored times of a program with these options to `longest`, which may have longer ones.
 * Errors are those of history_db_open(). */
int history_sections_read(struct section_limits *longest, const struct history_command *c,
                          struct err *e);

/* Stores times, each if it is longer than the stored one. Errors are those of history_db_open();
 * nothing is stored then. */
int history_sections_put(const struct section_limits *longest, const struct history_command *c,
                         struct err *e);
