/* sqlite - SQLite, which is loaded when it is first used, and the files of SQLite in this user's
 * directory for state: ${XDG_STATE_HOME:-~/.local/state}/drover. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

/* The functions of libsqlite3 that are used, without sqlite3_. Without the library `drover` starts
 * 0.4 ms earlier. */
#define SQLITE_EACH(f)                                                                          \
    f(bind_double) f(bind_int64) f(bind_text) f(busy_timeout) f(close) f(column_bytes)          \
        f(column_double) f(column_int) f(column_int64) f(column_text) f(column_type) f(errcode) \
            f(errmsg) f(exec) f(finalize) f(open_v2) f(prepare_v2) f(reset) f(step)

#define SQLITE_MEMBER(name) typeof(sqlite3_##name) *name;
extern struct sqlite { /* a library is loaded once per process; sqlite_open() loads it */
    SQLITE_EACH(SQLITE_MEMBER)
} sqlite;

/* An open file. A zero-initialised one is closed. */
struct sqlite_file {
    char *path;
    sqlite3 *db;
};

/* Returns the directory, or the one `below` it (NULL: none), in *out, which the caller frees. With
 * `create`, makes those that do not exist, with mode 0700.
 *   -ENOENT  it does not exist, or neither XDG_STATE_HOME nor HOME names a directory
 *   -EPERM   another user owns it or has access to it
 *   -errno   it cannot be made */
int sqlite_dir(char **out, const char *below, bool create, struct err *e);

/* Opens `path`, or with `create` makes it, with mode 0600. The caller calls sqlite_close() in every
 * case. Another process may block a call for `wait_ms`.
 *   -ENOENT  there is no such file
 *   -EINVAL  it is not a regular file
 *   -ENOPKG  SQLite is not installed
 *   -errno   other failures, as sqlite_failed() */
int sqlite_open(struct sqlite_file *f, const char *path, bool create, int wait_ms, struct err *e);
void sqlite_close(struct sqlite_file *f);
static inline void auto_sqlite_file(struct sqlite_file *f)
{
    sqlite_close(f);
}

/* Describes the last failure of SQLite and returns its errno: -EBADMSG (damaged, or no file of
 * SQLite), -ENOSPC, -EBUSY, -EACCES, or -EIO. */
int sqlite_failed(const struct sqlite_file *f, struct err *e);
int sqlite_exec(const struct sqlite_file *f, const char *sql, struct err *e);
/* The caller finalizes *out. */
int sqlite_prepare(const struct sqlite_file *f, sqlite3_stmt **out, const char *sql, struct err *e);
/* Sets *out to the integer in the first column of the first row, or to -1 if it is another value.
 */
int sqlite_query(const struct sqlite_file *f, const char *sql, int64_t *out, struct err *e);
/* Sets *id and *version to the file's application_id and user_version.
 *   -EBADMSG  the file has tables, but not this application_id
 *   -ENOTSUP  its version is above `newest`: a newer drover has written it */
int sqlite_check(const struct sqlite_file *f, int app, int newest, int64_t *version, struct err *e);
