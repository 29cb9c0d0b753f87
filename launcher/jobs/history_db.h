/* history_db - the SQLite file with what drover remembers of earlier jobs of this user:
 * ${XDG_STATE_HOME:-~/.local/state}/drover/baselines.db, with mode 0600 in a directory with mode
 * 0700.
 *
 * Several processes may use it at the same time. A damaged file, or one of another program, is
 * renamed to baselines.db.damaged with a warning, and a new one takes its place. A new table is a
 * further step in `steps` of history_db.c. */
#pragma once

#include <stddef.h>

#include "common/err.h"

enum { HISTORY_DB_ROWS_MAX = 10000 }; /* of a table */

/* A table, whose rows are structs. */
enum history_type { HISTORY_TEXT, HISTORY_INT, HISTORY_INT64, HISTORY_REAL };

struct history_column {
    const char *name;
    enum history_type type; /* of the member: char *, int, int64_t or double */
    size_t offset;
};

struct history_table {
    const char *name;
    const char *age;    /* its column with the time: history_db_put() removes the oldest rows */
    const char *upsert; /* what a row does that is there already; NULL: the new one replaces it */
    const struct history_column *columns;
    size_t column_count, row_bytes;
};

struct history_rows {
    void *at;
    size_t count;
};

/* Reads rows. `rest` is the end of the SELECT, whose parameters are `first` and `second` (NULL:
 * SQL's NULL). Without a file there are no rows. The caller calls history_db_end() in every case.
 *   -EPERM    another user owns the directory or has access to it
 *   -ENOTSUP  a newer drover has written the file
 *   -ENOPKG   SQLite is not installed
 *   -errno    other failures */
int history_db_read(struct history_rows *out, const struct history_table *t, const char *rest,
                    const char *first, const char *second, struct err *e);
/* Frees rows and their texts. */
void history_db_end(const struct history_table *t, void *rows, size_t count);

/* Stores rows, all or none; makes the file and its directories if they do not exist. Errors are
 * those of history_db_read(). */
int history_db_put(const struct history_table *t, const void *rows, size_t count, struct err *e);
