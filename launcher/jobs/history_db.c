#include "launcher/jobs/history_db.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "common/log.h"
#include "common/private_dir.h"
#include "common/strbuf.h"

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
                                    "  PRIMARY KEY(program, hash, kind, name));"};

struct history_db {
    char *dir, *path;
    sqlite3 *db;
};

void history_db_close(struct history_db *h)
{
    if (!h)
        return;
    if (h->db)
        (void)sqlite3_close(h->db); /* fails only if a statement is left */
    free(h->dir);
    free(h->path);
    free(h);
}

int history_db_failed(const struct history_db *h, struct err *e)
{
    int rc = sqlite3_errcode(h->db) & 0xff;
    int code = rc == SQLITE_NOTADB || rc == SQLITE_CORRUPT  ? -EBADMSG
               : rc == SQLITE_FULL                          ? -ENOSPC
               : rc == SQLITE_BUSY || rc == SQLITE_LOCKED   ? -EBUSY
               : rc == SQLITE_READONLY || rc == SQLITE_PERM ? -EACCES
                                                            : -EIO;
    return err_set(e, code, "%s: %s", h->path, sqlite3_errmsg(h->db));
}

int history_db_exec(struct history_db *h, const char *sql, struct err *e)
{
    return sqlite3_exec(h->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : history_db_failed(h, e);
}

int history_db_prepare(struct history_db *h, sqlite3_stmt **out, const char *sql, struct err *e)
{
    return sqlite3_prepare_v2(h->db, sql, -1, out, NULL) == SQLITE_OK ? 0 : history_db_failed(h, e);
}

int history_db_trim(struct history_db *h, const char *table, const char *age, struct err *e)
{
    AUTO(free)
    char *sql = xasprintf("DELETE FROM %s WHERE rowid IN (SELECT rowid FROM %s "
                          "ORDER BY %s DESC, rowid DESC LIMIT -1 OFFSET %d)",
                          table, table, age, HISTORY_DB_ROWS_MAX);
    return history_db_exec(h, sql, e);
}

char *history_db_text(sqlite3_stmt *st, int column)
{
    const char *text = (const char *)sqlite3_column_text(st, column);
    return xstrdup(text ? text : "");
}

/* Sets *out to the integer in the first column of the first row, or to -1 if it is another text. */
static int query(struct history_db *h, const char *sql, int64_t *out, struct err *e)
{
    sqlite3_stmt *st = NULL;
    if (history_db_prepare(h, &st, sql, e) < 0)
        return e->code;
    int rc = sqlite3_step(st) == SQLITE_ROW ? 0 : history_db_failed(h, e);
    if (rc == 0)
        *out = sqlite3_column_type(st, 0) == SQLITE_INTEGER ? sqlite3_column_int64(st, 0) : -1;
    sqlite3_finalize(st);
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
    return history_db_exec(h, strbuf_str(&sql), e);
}

static int open_file(struct history_db *h, bool create, struct err *e)
{
    if (make_file(h->path, create, e) < 0)
        return e->code;
    if (sqlite3_open_v2(h->path, &h->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
                        NULL) != SQLITE_OK)
        return history_db_failed(h, e);
    sqlite3_busy_timeout(h->db, WAIT_MS);
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
    sqlite3_close(TAKE(h->db));
    if (rename(h->path, aside) < 0)
        return err_set(e, -errno, "%s: %s", h->path, strerror(errno));
    (void)unlink(journal); /* usually there is none */
    log_warn("%s; it is now '%s', and a new file replaces it", e->text, aside);
    return 0;
}

int history_db_open(struct history_db **out, bool create, struct err *e)
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
    int rc = sqlite_loader_open(e);
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

int history_db_query(struct history_db **h, sqlite3_stmt **st, const char *sql, struct err *e)
{
    struct err own = {0};
    e = e ? e : &own;
    int rc = history_db_open(h, false, e);
    if (rc == -ENOENT)
        *e = (struct err){0};
    return rc == -ENOENT ? 0 : rc < 0 ? rc : history_db_prepare(*h, st, sql, e);
}
