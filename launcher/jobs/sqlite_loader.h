/* sqlite_loader - loads libsqlite3 when the history is first used. Without libsqlite3, `drover`
 * starts 0.4 ms earlier.
 *
 * Files that call SQLite include this header instead of SQLite's own. The names of SQLite's
 * functions then refer to the loaded functions. */
#pragma once

#include <sqlite3.h>

#include "common/err.h"

/* The names of the functions that drover uses, without sqlite3_. */
#define LIBSQLITE_EACH(f)                                                                        \
    f(bind_double) f(bind_int64) f(bind_text) f(busy_timeout) f(close) f(column_double)          \
        f(column_int) f(column_int64) f(column_text) f(column_type) f(errcode) f(errmsg) f(exec) \
            f(finalize) f(open_v2) f(prepare_v2) f(step)

struct sqlite_loader {
#define LIBSQLITE_MEMBER(name) typeof(sqlite3_##name) *name;
    LIBSQLITE_EACH(LIBSQLITE_MEMBER)
#undef LIBSQLITE_MEMBER
};

/* Loads libsqlite3 if it is not loaded, for the lifetime of the process.
 *   -ENOPKG   it is not installed
 *   -ELIBBAD  it lacks one of the functions */
int sqlite_loader_open(struct err *e);
/* Returns the functions of libsqlite3, after sqlite_loader_open() has succeeded. */
const struct sqlite_loader *sqlite_loader(void);

#define sqlite3_bind_double sqlite_loader()->bind_double
#define sqlite3_bind_int64 sqlite_loader()->bind_int64
#define sqlite3_bind_text sqlite_loader()->bind_text
#define sqlite3_busy_timeout sqlite_loader()->busy_timeout
#define sqlite3_close sqlite_loader()->close
#define sqlite3_column_double sqlite_loader()->column_double
#define sqlite3_column_int sqlite_loader()->column_int
#define sqlite3_column_int64 sqlite_loader()->column_int64
#define sqlite3_column_text sqlite_loader()->column_text
#define sqlite3_column_type sqlite_loader()->column_type
#define sqlite3_errcode sqlite_loader()->errcode
#define sqlite3_errmsg sqlite_loader()->errmsg
#define sqlite3_exec sqlite_loader()->exec
#define sqlite3_finalize sqlite_loader()->finalize
#define sqlite3_open_v2 sqlite_loader()->open_v2
#define sqlite3_prepare_v2 sqlite_loader()->prepare_v2
#define sqlite3_step sqlite_loader()->step
