/* import_sweep - stores trials of another tool as a sweep that has ended. */
#pragma once

#include "common/err.h"
#include "hpo/exchange/import_trials.h"

/* Writes the sweep `name` below `root`, and nothing on failure.
 *   -EEXIST   there is such a sweep
 *   -ENODATA  as import_trials_file()
 *   others    as sweep_dir_open() and event_store_commit() */
int import_sweep_write(const struct import_trials *t, const char *root, const char *name,
                       const char *source, struct err *e);
