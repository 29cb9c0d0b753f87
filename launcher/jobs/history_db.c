#include "launcher/jobs/history_db.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "common/dl.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/private_dir.h"
#include "common/strbuf.h"

enum {
    APPLICATION_ID = 0x64726868, /* "drhh": PRAGMA application_id */
    WAIT_MS = 5000               /* how long another process may block this one */
};

/* The functions of libsqlite3 that are used, without sqlite3_. It is loaded when the history is
 * first used: without it, `drover` starts 0.4 ms earlier. */
#define LIBSQLITE_EACH(f)                                                                        \
    f(bind_double) f(bind_int64) f(bind_text) f(busy_timeout) f(close) f(column_double)          \
        f(column_int) f(column_int64) f(column_text) f(column_type) f(errcode) f(errmsg) f(exec) \
            f(finalize) f(open_v2) f(prepare_v2) f(step)

#define LIBSQLITE_MEMBER(name) typeof(sqlite3_##name) *name;
static struct sqlite { /* mutable static data: a library is loaded once per process */
    LIBSQLITE_EACH(LIBSQLITE_MEMBER)
} sqlite;

static int load_sqlite(struct err *e)
{
#define LIBSQLITE_SYMBOL(name) {"sqlite3_" #name, offsetof(struct sqlite, name), DL_REQUIRED},
    static const struct dl_symbol symbols[] = {LIBSQLITE_EACH(LIBSQLITE_SYMBOL)};
    static const struct dl_library library = {
        .names = {"libsqlite3.so.0"}, .hint = "apt install libsqlite3-0", DL_SYMBOLS(symbols)};
    int rc = sqlite.step ? 0 : dl_load(&sqlite, NULL, &library, e);
    if (rc < 0)
        err_wrap(e, "SQLite");
    return rc == -ENOENT ? -ENOPKG : rc; /* -ENOENT: a missing file of the history */
}

/* Step i converts format i to format i + 1 (PRAGMA user_version); an older drover refuses the
 * result. */
static const char *const steps[] = {"CREATE TABLE baseline("
                                    "  name TEXT NOT NULL,"
                                    "  hardware TEXT NOT NULL,"
                                    "  unit TEXT NOT NULL,"
                                    "  mean REAL NOT NULL,"
                                    "  deviation REAL NOT NULL,"
                                    "  blocks INTEGER NOT NULL,"
                                    "  step_s REAL NOT NULL,"
                                    "  cpu REAL NOT NULL,"
                                    "  gpu REAL NOT NULL,"
                                    "  seconds REAL NOT NULL,"
                                    "  stored_ms INTEGER NOT NULL,"
                                    "  PRIMARY KEY(name, hardware));",
                                    "CREATE TABLE job("
                                    "  begin_ms INTEGER NOT NULL,"
                                    "  end_ms INTEGER NOT NULL,"
                                    "  job TEXT NOT NULL,"
                                    "  program TEXT NOT NULL,"
                                    "  hash TEXT NOT NULL,"
                                    "  batch INTEGER NOT NULL,"
                                    "  gpu TEXT NOT NULL,"
                                    "  gpus INTEGER NOT NULL,"
                                    "  status INTEGER NOT NULL,"
                                    "  utilisation REAL NOT NULL,"
                                    "  peak INTEGER NOT NULL,"
                                    "  memory INTEGER NOT NULL,"
                                    "  peaks TEXT NOT NULL,"
                                    "  energy_j REAL NOT NULL,"
                                    "  cost REAL NOT NULL);"
                                    "CREATE INDEX job_program ON job(program, end_ms);",
                                    "CREATE TABLE section("
                                    "  program TEXT NOT NULL,"
                                    "  hash TEXT NOT NULL,"
                                    "  kind INTEGER NOT NULL,"
                                    "  name TEXT NOT NULL,"
                                    "  longest_ms INTEGER NOT NULL,"
                                    "  stored_ms INTEGER NOT NULL,"
                                    "  PRIMARY KEY(program, hash, kind, name));",
                                    /* earlier peaks are those of all processes */
                                    "ALTER TABLE job ADD COLUMN"
                                    "  peak_of_all INTEGER NOT NULL DEFAULT 1;"};

struct history_db {
    char *dir, *path;
    sqlite3 *db;
};

static void close_db(struct history_db *h)
{
    if (!h)
        return;
    if (h->db)
        (void)sqlite.close(h->db); /* fails only if a statement is left */
    free(h->dir);
    free(h->path);
    free(h);
}

AUTO_DEFINE(history_db, struct history_db *, close_db)

static int failed(const struct history_db *h, struct err *e)
{
    int rc = sqlite.errcode(h->db) & 0xff;
    int code = rc == SQLITE_NOTADB || rc == SQLITE_CORRUPT  ? -EBADMSG
               : rc == SQLITE_FULL                          ? -ENOSPC
               : rc == SQLITE_BUSY || rc == SQLITE_LOCKED   ? -EBUSY
               : rc == SQLITE_READONLY || rc == SQLITE_PERM ? -EACCES
                                                            : -EIO;
    return err_set(e, code, "%s: %s", h->path, sqlite.errmsg(h->db));
}

static int exec(struct history_db *h, const char *sql, struct err *e)
{
    return sqlite.exec(h->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : failed(h, e);
}

static int prepare(const struct history_db *h, sqlite3_stmt **out, const char *sql, struct err *e)
{
    return sqlite.prepare_v2(h->db, sql, -1, out, NULL) == SQLITE_OK ? 0 : failed(h, e);
}

/* Sets *out to the integer in the first column of the first row, or to -1 if it is another text. */
static int query(struct history_db *h, const char *sql, int64_t *out, struct err *e)
{
    sqlite3_stmt *st = NULL;
    if (prepare(h, &st, sql, e) < 0)
        return e->code;
    int rc = sqlite.step(st) == SQLITE_ROW ? 0 : failed(h, e);
    if (rc == 0)
        *out = sqlite.column_type(st, 0) == SQLITE_INTEGER ? sqlite.column_int64(st, 0) : -1;
    sqlite.finalize(st);
    return rc;
}

/* ---- the directory -------------------------------------------------------------------------- */

static int find_dir(char **out, struct err *e)
{
    const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (xdg && xdg[0] == '/')
        *out = xasprintf("%s/drover", xdg);
    else if (home && home[0] == '/')
        *out = xasprintf("%s/.local/state/drover", home);
    else
        return err_set(e, -ENOENT, "neither XDG_STATE_HOME nor HOME names a directory");
    return 0;
}

static int make_dir(const char *path, struct err *e)
{
    AUTO(free) char *part = xstrdup(path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(part, 0700) < 0 && errno != EEXIST)
            return err_set(e, -errno, "%s: %s", part, strerror(errno));
        *slash = '/';
    }
    return private_dir_make(path, e);
}

/* Locks the directory while the file is opened: only one process at a time creates the file,
 * converts it, or renames a damaged one. Sets *fd, whose end unlocks. */
static int lock_dir(int *fd, const char *path, struct err *e)
{
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    for (int ms = 0; flock(*fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK; ms += 10) {
        if (ms >= WAIT_MS)
            return err_set(e, -EBUSY, "%s: another process holds its lock", path);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return 0; /* also if the file system has no locks: SQLite needs only its own */
}

/* ---- the file ------------------------------------------------------------------------------- */

static int make_file(const char *path, bool create, struct err *e)
{
    struct stat st;
    AUTO(fd)
    int fd =
        open(path, O_RDWR | (create ? O_CREAT : 0) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return err_set(e, -EINVAL, "%s: not a regular file", path);
    if ((st.st_mode & 0777) != 0600 && fchmod(fd, 0600) < 0)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    return 0;
}

/* Creates the tables that the file lacks. */
static int convert(struct history_db *h, struct err *e)
{
    int64_t app = 0, version = 0, tables = 0;
    if (query(h, "PRAGMA application_id", &app, e) < 0 ||
        query(h, "PRAGMA user_version", &version, e) < 0 ||
        query(h, "SELECT count(*) FROM sqlite_master", &tables, e) < 0)
        return e->code;
    if (app != APPLICATION_ID && (app != 0 || version != 0 || tables != 0))
        return err_set(e, -EBADMSG, "%s: not a file of drover", h->path);
    if (version < 0 || version > (int64_t)COUNT_OF(steps))
        return err_set(e, -ENOTSUP, "%s: written by a newer drover (format %lld, supported: %zu)",
                       h->path, (long long)version, COUNT_OF(steps));
    if (version == (int64_t)COUNT_OF(steps))
        return 0;
    AUTO(strbuf) struct strbuf sql = {0};
    strbuf_printf(&sql, "BEGIN IMMEDIATE; PRAGMA application_id=%d; ", APPLICATION_ID);
    for (size_t i = (size_t)version; i < COUNT_OF(steps); i++)
        strbuf_puts(&sql, steps[i]);
    strbuf_printf(&sql, "PRAGMA user_version=%zu; COMMIT", COUNT_OF(steps));
    return exec(h, strbuf_str(&sql), e);
}

static int open_file(struct history_db *h, bool create, struct err *e)
{
    if (make_file(h->path, create, e) < 0)
        return e->code;
    if (sqlite.open_v2(h->path, &h->db,
                       SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
                       NULL) != SQLITE_OK)
        return failed(h, e);
    sqlite.busy_timeout(h->db, WAIT_MS);
    int64_t damaged = 0; /* quick_check answers "ok", or lines that describe the damage */
    if (query(h, "SELECT count(*) FROM pragma_quick_check WHERE quick_check <> 'ok'", &damaged, e) <
        0)
        return e->code;
    return damaged ? err_set(e, -EBADMSG, "%s: damaged", h->path) : convert(h, e);
}

/* Renames a damaged file, and removes its journal, which would be applied to the new file. */
static int set_aside(struct history_db *h, struct err *e)
{
    AUTO(free) char *aside = xasprintf("%s.damaged", h->path);
    AUTO(free) char *journal = xasprintf("%s-journal", h->path);
    sqlite.close(TAKE(h->db));
    if (rename(h->path, aside) < 0)
        return err_set(e, -errno, "%s: %s", h->path, strerror(errno));
    (void)unlink(journal); /* usually there is none */
    log_warn("%s; it is now '%s', and a new file replaces it", e->text, aside);
    return 0;
}

/* Opens the file. With `create`, makes it and its directories if they do not exist; otherwise
 * -ENOENT: there is no file. */
static int open_db(struct history_db **out, bool create, struct err *e)
{
    AUTO(history_db) struct history_db *h = xzalloc(sizeof *h);
    AUTO(fd) int lock = -1;
    struct err own = {0};
    e = e ? e : &own;
    if (find_dir(&h->dir, e) < 0 || (create && make_dir(h->dir, e) < 0) ||
        (!create && access(h->dir, F_OK) == 0 && private_dir_check(h->dir, e) < 0) ||
        lock_dir(&lock, h->dir, e) < 0)
        return e->code;
    h->path = xasprintf("%s/baselines.db", h->dir);
    int rc = load_sqlite(e);
    if (rc == 0)
        rc = open_file(h, create, e);
    if (rc == -EBADMSG && (rc = set_aside(h, e)) == 0)
        rc = open_file(h, true, e);
    if (rc < 0)
        return rc;
    *e = (struct err){0}; /* the damage is repaired */
    *out = TAKE(h);
    return 0;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void add_names(struct strbuf *sql, const struct history_table *t)
{
    for (size_t i = 0; i < t->column_count; i++)
        strbuf_printf(sql, "%s%s", i ? ", " : "", t->columns[i].name);
}

static void read_row(char *row, const struct history_table *t, sqlite3_stmt *st)
{
    for (int i = 0; i < (int)t->column_count; i++) {
        void *to = row + t->columns[i].offset;
        const char *text;
        switch (t->columns[i].type) {
        case HISTORY_TEXT:
            text = (const char *)sqlite.column_text(st, i);
            *(char **)to = xstrdup(text ? text : "");
            break;
        case HISTORY_INT:
            *(int *)to = sqlite.column_int(st, i);
            break;
        case HISTORY_INT64:
            *(int64_t *)to = sqlite.column_int64(st, i);
            break;
        case HISTORY_REAL:
            *(double *)to = sqlite.column_double(st, i);
            break;
        }
    }
}

static void bind_row(sqlite3_stmt *st, const struct history_table *t, const char *row)
{
    for (int i = 0; i < (int)t->column_count; i++) {
        const void *from = row + t->columns[i].offset;
        switch (t->columns[i].type) {
        case HISTORY_TEXT:
            sqlite.bind_text(st, i + 1, *(char *const *)from, -1, SQLITE_STATIC);
            break;
        case HISTORY_INT:
            sqlite.bind_int64(st, i + 1, *(const int *)from);
            break;
        case HISTORY_INT64:
            sqlite.bind_int64(st, i + 1, *(const int64_t *)from);
            break;
        case HISTORY_REAL:
            sqlite.bind_double(st, i + 1, *(const double *)from);
            break;
        }
    }
}

int history_db_read(struct history_rows *out, const struct history_table *t, const char *rest,
                    const char *first, const char *second, struct err *e)
{
    AUTO(history_db) struct history_db *h = NULL;
    AUTO(strbuf) struct strbuf sql = {0};
    sqlite3_stmt *st = NULL;
    struct err own = {0};
    *out = (struct history_rows){0};
    e = e ? e : &own;
    int rc = open_db(&h, false, e);
    if (rc == -ENOENT) {
        *e = (struct err){0};
        return 0;
    }
    strbuf_puts(&sql, "SELECT ");
    add_names(&sql, t);
    strbuf_printf(&sql, " FROM %s %s", t->name, rest);
    if (rc == 0)
        rc = prepare(h, &st, strbuf_str(&sql), e);
    if (rc < 0)
        return rc;
    sqlite.bind_text(st, 1, first, -1, SQLITE_STATIC); /* fails if there is no such parameter */
    sqlite.bind_text(st, 2, second, -1, SQLITE_STATIC);
    int step;
    while ((step = sqlite.step(st)) == SQLITE_ROW) {
        out->at = xrealloc(out->at, out->count + 1, t->row_bytes);
        char *row = (char *)out->at + out->count++ * t->row_bytes;
        memset(row, 0, t->row_bytes);
        read_row(row, t, st);
    }
    rc = step == SQLITE_DONE ? 0 : failed(h, e);
    sqlite.finalize(st);
    return rc;
}

void history_db_end(const struct history_table *t, void *rows, size_t count)
{
    for (size_t i = 0; i < count * t->column_count; i++) {
        const struct history_column *c = &t->columns[i % t->column_count];
        if (c->type == HISTORY_TEXT)
            free(*(char **)((char *)rows + i / t->column_count * t->row_bytes + c->offset));
    }
    free(rows);
}

static int insert(const struct history_db *h, const struct history_table *t, const char *sql,
                  const char *row, struct err *e)
{
    sqlite3_stmt *st = NULL;
    int rc = prepare(h, &st, sql, e);
    if (rc < 0)
        return rc;
    bind_row(st, t, row);
    rc = sqlite.step(st) == SQLITE_DONE ? 0 : failed(h, e);
    sqlite.finalize(st);
    return rc;
}

/* Removes the oldest rows beyond the limit. */
static int trim(struct history_db *h, const struct history_table *t, struct err *e)
{
    AUTO(free)
    char *sql = xasprintf("DELETE FROM %s WHERE rowid IN (SELECT rowid FROM %s "
                          "ORDER BY %s DESC, rowid DESC LIMIT -1 OFFSET %d)",
                          t->name, t->name, t->age, HISTORY_DB_ROWS_MAX);
    return exec(h, sql, e);
}

int history_db_put(const struct history_table *t, const void *rows, size_t count, struct err *e)
{
    AUTO(history_db) struct history_db *h = NULL;
    AUTO(strbuf) struct strbuf sql = {0};
    strbuf_printf(&sql, "INSERT OR REPLACE INTO %s(", t->name);
    add_names(&sql, t);
    strbuf_puts(&sql, ") VALUES(?");
    for (size_t i = 1; i < t->column_count; i++)
        strbuf_puts(&sql, ", ?");
    strbuf_printf(&sql, ") %s", t->upsert ? t->upsert : "");
    int rc = open_db(&h, true, e);
    if (rc == 0)
        rc = exec(h, "BEGIN IMMEDIATE", e);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = insert(h, t, strbuf_str(&sql), (const char *)rows + i * t->row_bytes, e);
    if (rc == 0)
        rc = trim(h, t, e);
    return rc < 0 ? rc : exec(h, "COMMIT", e); /* closing it rolls back */
}
