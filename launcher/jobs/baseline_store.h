/* baseline_store - the stored baselines, in history_db's file. At most HISTORY_DB_ROWS_MAX are
 * kept: those that were stored last. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/jobs/baseline.h"

struct baseline_list {
    struct baseline *at;
    size_t count;
};

/* Reads the baselines with this name on any hardware, or all if `name` is NULL, in the order of
 * their names. The list is empty if nothing was stored yet. The caller calls baseline_store_end()
 * in every case. Errors are those of history_db_read(). */
int baseline_store_read(struct baseline_list *out, const char *name, struct err *e);
void baseline_store_end(struct baseline_list *l);

/* Stores `m`, and replaces the baseline of the same name and hardware. Sets m->stored_ms. Errors
 * are those of history_db_read(); nothing is stored then. */
int baseline_store_put(struct baseline *m, struct err *e);
