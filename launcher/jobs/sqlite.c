#include "launcher/jobs/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "common/dl.h"
#include "common/mem.h"
#include "common/private_dir.h"

struct sqlite sqlite;

static int load(struct err *e)
{
#define SYMBOL(name) {"sqlite3_" #name, offsetof(struct sqlite, name), DL_REQUIRED},
    static const struct dl_symbol symbols[] = {SQLITE_EACH(SYMBOL)};
    static const struct dl_library library = {
        .names = {"libsqlite3.so.0"}, .hint = "apt install libsqlite3-0", DL_SYMBOLS(symbols)};
    int rc = sqlite.step ? 0 : dl_load(&sqlite, NULL, &library, e);
    if (rc < 0)
        err_wrap(e, "SQLite");
    if (rc == -ENOENT) /* that is a missing file of the user */
        rc = e ? (e->code = -ENOPKG) : -ENOPKG;
    return rc;
}

int sqlite_failed(const struct sqlite_file *f, struct err *e)
{
    int rc = sqlite.errcode(f->db) & 0xff;
    int code = rc == SQLITE_NOTADB || rc == SQLITE_CORRUPT  ? -EBADMSG
               : rc == SQLITE_FULL                          ? -ENOSPC
               : rc == SQLITE_BUSY || rc == SQLITE_LOCKED   ? -EBUSY
               : rc == SQLITE_READONLY || rc == SQLITE_PERM ? -EACCES
                                                            : -EIO;
    return err_set(e, code, "%s: %s", f->path, sqlite.errmsg(f->db));
}

int sqlite_exec(const struct sqlite_file *f, const char *sql, struct err *e)
{
    return sqlite.exec(f->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : sqlite_failed(f, e);
}

int sqlite_prepare(const struct sqlite_file *f, sqlite3_stmt **out, const char *sql, struct err *e)
{
    return sqlite.prepare_v2(f->db, sql, -1, out, NULL) == SQLITE_OK ? 0 : sqlite_failed(f, e);
}

int sqlite_query(const struct sqlite_file *f, const char *sql, int64_t *out, struct err *e)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite_prepare(f, &st, sql, e);
    if (rc < 0)
        return rc;
    rc = sqlite.step(st) == SQLITE_ROW ? 0 : sqlite_failed(f, e);
    if (rc == 0)
        *out = sqlite.column_type(st, 0) == SQLITE_INTEGER ? sqlite.column_int64(st, 0) : -1;
    sqlite.finalize(st);
    return rc;
}

int sqlite_check(const struct sqlite_file *f, int app, int newest, int64_t *version, struct err *e)
{
    int64_t id = 0, tables = 0;
    int rc = sqlite_query(f, "PRAGMA application_id", &id, e);
    if (rc == 0)
        rc = sqlite_query(f, "PRAGMA user_version", version, e);
    if (rc == 0)
        rc = sqlite_query(f, "SELECT count(*) FROM sqlite_master", &tables, e);
    if (rc < 0)
        return rc;
    if (id != app && (id != 0 || *version != 0 || tables != 0))
        return err_set(e, -EBADMSG, "%s: not a file of drover", f->path);
    if (*version < 0 || *version > newest)
        return err_set(e, -ENOTSUP, "%s: written by a newer drover (format %lld, supported: %d)",
                       f->path, (long long)*version, newest);
    return 0;
}

/* ---- files ---------------------------------------------------------------------------------- */

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

static int check_dir(const char *path, bool create, struct err *e)
{
    if (create)
        return make_dir(path, e);
    return access(path, F_OK) == 0 ? private_dir_check(path, e)
                                   : err_set(e, -errno, "%s: %s", path, strerror(errno));
}

int sqlite_dir(char **out, const char *below, bool create, struct err *e)
{
    AUTO(free) char *dir = NULL;
    const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    if (xdg && xdg[0] == '/')
        dir = xasprintf("%s/drover", xdg);
    else if (home && home[0] == '/')
        dir = xasprintf("%s/.local/state/drover", home);
    else
        return err_set(e, -ENOENT, "neither XDG_STATE_HOME nor HOME names a directory");
    int rc = check_dir(dir, create, e);
    if (rc < 0 || !below) {
        *out = rc < 0 ? NULL : TAKE(dir);
        return rc;
    }
    AUTO(free) char *whole = xasprintf("%s/%s", dir, below);
    rc = create ? private_dir_make(whole, e) : check_dir(whole, false, e);
    *out = rc < 0 ? NULL : TAKE(whole);
    return rc;
}

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

int sqlite_open(struct sqlite_file *f, const char *path, bool create, int wait_ms, struct err *e)
{
    *f = (struct sqlite_file){.path = xstrdup(path)};
    int rc = load(e);
    if (rc == 0)
        rc = make_file(path, create, e);
    if (rc < 0)
        return rc;
    if (sqlite.open_v2(path, &f->db,
                       SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
                       NULL) != SQLITE_OK)
        return sqlite_failed(f, e);
    sqlite.busy_timeout(f->db, wait_ms);
    return 0;
}

void sqlite_close(struct sqlite_file *f)
{
    if (f->db)
        (void)sqlite.close(f->db); /* fails only if a statement is left */
    free(f->path);
    *f = (struct sqlite_file){0};
}
