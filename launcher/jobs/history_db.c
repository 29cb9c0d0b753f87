#include "launcher/jobs/history_db.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/jobs/sqlite.h"

enum {
    APPLICATION_ID = 0x64726868, /* "drhh": PRAGMA application_id */
    WAIT_MS = 5000               /* how long another process may block this one */
};

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

/* Creates the tables that the file lacks. */
static int convert(struct sqlite_file *h, struct err *e)
{
    int64_t version = 0;
    if (sqlite_check(h, APPLICATION_ID, COUNT_OF(steps), &version, e) < 0)
        return e->code;
    if (version == (int64_t)COUNT_OF(steps))
        return 0;
    AUTO(strbuf) struct strbuf sql = {0};
    strbuf_printf(&sql, "BEGIN IMMEDIATE; PRAGMA application_id=%d; ", APPLICATION_ID);
    for (size_t i = (size_t)version; i < COUNT_OF(steps); i++)
        strbuf_puts(&sql, steps[i]);
    strbuf_printf(&sql, "PRAGMA user_version=%zu; COMMIT", COUNT_OF(steps));
    return sqlite_exec(h, strbuf_str(&sql), e);
}

static int open_file(struct sqlite_file *h, const char *path, bool create, struct err *e)
{
    if (sqlite_open(h, path, create, WAIT_MS, e) < 0)
        return e->code;
    int64_t damaged = 0; /* quick_check answers "ok", or lines that describe the damage */
    if (sqlite_query(h, "SELECT count(*) FROM pragma_quick_check WHERE quick_check <> 'ok'",
                     &damaged, e) < 0)
        return e->code;
    return damaged ? err_set(e, -EBADMSG, "%s: damaged", path) : convert(h, e);
}

/* Renames a damaged file, and removes its journal, which would be applied to the new file. */
static int set_aside(const char *path, struct err *e)
{
    AUTO(free) char *aside = xasprintf("%s.damaged", path);
    AUTO(free) char *journal = xasprintf("%s-journal", path);
    if (rename(path, aside) < 0)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    (void)unlink(journal); /* usually there is none */
    log_warn("%s; it is now '%s', and a new file replaces it", e->text, aside);
    return 0;
}

/* Opens the file. With `create`, makes it and its directories if they do not exist; otherwise
 * -ENOENT: there is no file. */
static int open_db(struct sqlite_file *h, bool create, struct err *e)
{
    AUTO(fd) int lock = -1;
    AUTO(free) char *dir = NULL;
    if (sqlite_dir(&dir, NULL, create, e) < 0 || lock_dir(&lock, dir, e) < 0)
        return e->code;
    AUTO(free) char *path = xasprintf("%s/baselines.db", dir);
    int rc = open_file(h, path, create, e);
    if (rc == -EBADMSG) {
        sqlite_close(h);
        rc = set_aside(path, e);
        if (rc == 0)
            rc = open_file(h, path, true, e);
    }
    if (rc < 0)
        return rc;
    *e = (struct err){0}; /* the damage is repaired */
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
    AUTO(sqlite_file) struct sqlite_file h = {0};
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
        rc = sqlite_prepare(&h, &st, strbuf_str(&sql), e);
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
    rc = step == SQLITE_DONE ? 0 : sqlite_failed(&h, e);
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

static int insert(const struct sqlite_file *h, const struct history_table *t, const char *sql,
                  const char *row, struct err *e)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite_prepare(h, &st, sql, e);
    if (rc < 0)
        return rc;
    bind_row(st, t, row);
    rc = sqlite.step(st) == SQLITE_DONE ? 0 : sqlite_failed(h, e);
    sqlite.finalize(st);
    return rc;
}

/* Removes the oldest rows beyond the limit. */
static int trim(struct sqlite_file *h, const struct history_table *t, struct err *e)
{
    AUTO(free)
    char *sql = xasprintf("DELETE FROM %s WHERE rowid IN (SELECT rowid FROM %s "
                          "ORDER BY %s DESC, rowid DESC LIMIT -1 OFFSET %d)",
                          t->name, t->name, t->age, HISTORY_DB_ROWS_MAX);
    return sqlite_exec(h, sql, e);
}

int history_db_put(const struct history_table *t, const void *rows, size_t count, struct err *e)
{
    AUTO(sqlite_file) struct sqlite_file h = {0};
    AUTO(strbuf) struct strbuf sql = {0};
    struct err own = {0};
    e = e ? e : &own;
    strbuf_printf(&sql, "INSERT OR REPLACE INTO %s(", t->name);
    add_names(&sql, t);
    strbuf_puts(&sql, ") VALUES(?");
    for (size_t i = 1; i < t->column_count; i++)
        strbuf_puts(&sql, ", ?");
    strbuf_printf(&sql, ") %s", t->upsert ? t->upsert : "");
    int rc = open_db(&h, true, e);
    if (rc == 0)
        rc = sqlite_exec(&h, "BEGIN IMMEDIATE", e);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = insert(&h, t, strbuf_str(&sql), (const char *)rows + i * t->row_bytes, e);
    if (rc == 0)
        rc = trim(&h, t, e);
    return rc < 0 ? rc : sqlite_exec(&h, "COMMIT", e); /* closing it rolls back */
}
