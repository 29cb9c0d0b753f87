/* history_db - the SQLite file with what drover remembers of earlier jobs of this user:
 * ${XDG_STATE_HOME:-~/.local/state}/drover/baselines.db, with mode 0600 in a directory with mode
 * 0700.
 *
 * Several processes may use it at the same time. A damaged file, or one of another program, is
 * renamed to baselines.db.damaged with a warning, and a new one takes its place. A new table is a
 * further step in `steps` of history_db.c. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/jobs/sqlite_loader.h"

enum { HISTORY_DB_ROWS_MAX = 10000 }; /* of a table; its module removes the oldest ones */

struct history_db;

/* Opens the file. With `create`, makes it and its directories if they do not exist.
 *   -ENOENT   no file, without `create`
 *   -EPERM    another user owns the directory or has access to it
 *   -ENOTSUP  a newer drover has written it
 *   -ENOPKG   SQLite is not installed
 *   -errno    other failures */
int history_db_open(struct history_db **out, bool create, struct err *e);
void history_db_close(struct history_db *h);
AUTO_DEFINE(history_db, struct history_db *, history_db_close)

/* Prepares a statement, which the caller finalizes before history_db_close(). */
int history_db_prepare(struct history_db *h, sqlite3_stmt **out, const char *sql, struct err *e);
/* Opens the file if it exists, and prepares a statement. Returns 0 without a file; *h and *st are
 * then unchanged. */
int history_db_query(struct history_db **h, sqlite3_stmt **st, const char *sql, struct err *e);
/* Returns a column of the present row as text ("" for NULL), which the caller frees. */
char *history_db_text(sqlite3_stmt *st, int column);
/* Removes the oldest rows of a table beyond the limit. `age` names its column with the time. */
int history_db_trim(struct history_db *h, const char *table, const char *age, struct err *e);
/* Executes statements without results. */
int history_db_exec(struct history_db *h, const char *sql, struct err *e);
/* Describes SQLite's last error. Returns -EBADMSG if the file is damaged, or another negative
 * errno. */
int history_db_failed(const struct history_db *h, struct err *e);
