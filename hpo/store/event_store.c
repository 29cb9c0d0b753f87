#include "hpo/store/event_store.h"

#include <assert.h>
#include <errno.h>
#include <linux/magic.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

enum {
    SCHEMA_VERSION = 2,          /* PRAGMA user_version; 1 had no records `asked` and `retried` */
    APPLICATION_ID = 0x64726f76, /* "drov": PRAGMA application_id */
    BUSY_MS = 5000               /* how long a reader of a rollback journal may block */
};

struct event_store {
    sqlite3 *db;
    char *path;
    sqlite3_stmt *append, *put, *get;
    bool open_tx; /* has records that are not committed */
    bool broken;
};

static const char schema[] = "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL);"
                             "CREATE TABLE record("
                             "  seq INTEGER PRIMARY KEY,"
                             "  at_ms INTEGER NOT NULL,"
                             "  kind TEXT NOT NULL,"
                             "  trial INTEGER NOT NULL,"
                             "  lease INTEGER NOT NULL,"
                             "  msg INTEGER NOT NULL,"
                             "  data TEXT NOT NULL);";

static const char *const kind_names[SCHEDULER_REC_KINDS] = {
    [SCHEDULER_REC_CREATED] = "created",   [SCHEDULER_REC_LEASED] = "leased",
    [SCHEDULER_REC_REPORT] = "report",     [SCHEDULER_REC_STOPPING] = "stopping",
    [SCHEDULER_REC_REQUEUED] = "requeued", [SCHEDULER_REC_ENDED] = "ended",
    [SCHEDULER_REC_PAUSING] = "pausing",   [SCHEDULER_REC_PAUSED] = "paused",
    [SCHEDULER_REC_COMMAND] = "asked",     [SCHEDULER_REC_RETRIED] = "retried",
};

/* The negative errno for a code of SQLite. */
static int errno_of(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return -ENOSPC;
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return -EACCES;
    case SQLITE_READONLY:
        return -EROFS;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return -EBUSY;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return -EBADMSG;
    case SQLITE_NOMEM:
        return -ENOMEM;
    default:
        return -EIO;
    }
}

static int failed(const struct event_store *s, const char *doing, struct err *e)
{
    int rc = sqlite3_extended_errcode(s->db);
    int code = errno_of(rc);
    err_set(e, code, "%s: %s: %s", s->path, doing, sqlite3_errmsg(s->db));
    if (code == -EBADMSG)
        err_hint(e, "sqlite3 '%s' .recover  restores what is readable", s->path);
    else if (code == -EBUSY)
        err_hint(e, "close the other program that has it open; on a network file system only one "
                    "can open it");
    return code;
}

static int exec(struct event_store *s, const char *sql, const char *doing, struct err *e)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : failed(s, doing, e);
}

static int prepare(struct event_store *s, sqlite3_stmt **out, const char *sql, struct err *e)
{
    return sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL) == SQLITE_OK
               ? 0
               : failed(s, "prepare", e);
}

/* Returns the first column of the first row, as an integer or as text. */
static int query_int(struct event_store *s, const char *sql, int64_t *out, struct err *e)
{
    sqlite3_stmt *st = NULL;
    if (prepare(s, &st, sql, e) < 0)
        return err_wrap(e, "open");
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        *out = sqlite3_column_int64(st, 0);
    int code = rc == SQLITE_ROW ? 0 : failed(s, "open", e);
    sqlite3_finalize(st);
    return code;
}

static int query_text(struct event_store *s, const char *sql, char *out, size_t len, struct err *e)
{
    sqlite3_stmt *st = NULL;
    if (prepare(s, &st, sql, e) < 0)
        return err_wrap(e, "open");
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        snprintf(out, len, "%s", (const char *)sqlite3_column_text(st, 0));
    int code = rc == SQLITE_ROW ? 0 : failed(s, "open", e);
    sqlite3_finalize(st);
    return code;
}

/* A WAL needs memory that its users share, which network file systems lack. */
static bool on_network(const char *path)
{
    struct statfs fs;
    if (statfs(path, &fs) < 0)
        return false;
    enum { CIFS = 0xff534d42, SMB2 = 0xfe534d42, LUSTRE = 0x0bd00bd0, GPFS = 0x47504653 };
    switch ((unsigned long)fs.f_type & 0xffffffff) {
    case NFS_SUPER_MAGIC:
    case SMB_SUPER_MAGIC:
    case CEPH_SUPER_MAGIC:
    case V9FS_MAGIC:
    case FUSE_SUPER_MAGIC:
    case AFS_SUPER_MAGIC:
    case (unsigned)CIFS:
    case (unsigned)SMB2:
    case LUSTRE:
    case GPFS:
        return true;
    default:
        return false;
    }
}

static int set_journal(struct event_store *s, struct err *e)
{
    char mode[16] = "";
    if (!on_network(s->path)) {
        if (query_text(s, "PRAGMA journal_mode=WAL", mode, sizeof mode, e) < 0)
            return e->code;
    }
    if (strcmp(mode, "wal") != 0 &&
        exec(s, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=TRUNCATE", "journal", e) < 0)
        return e->code;
    /* With 256 pages (1 MiB) the WAL is soon overwritten: a file that grows makes commits slower.
     */
    return exec(s, "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=256", "synchronous", e);
}

static int check_pages(struct event_store *s, struct err *e)
{
    char verdict[200] = "";
    if (query_text(s, "PRAGMA quick_check(1)", verdict, sizeof verdict, e) < 0)
        return e->code;
    if (strcmp(verdict, "ok") == 0)
        return 0;
    err_set(e, -EBADMSG, "%s: damaged: %s", s->path, verdict);
    return err_hint(e, "sqlite3 '%s' .recover  restores what is readable", s->path);
}

/* Creates the tables of a new file in one transaction. Otherwise checks that the file is a store of
 * drover and not damaged, and marks an older format as the present one, since it may now get
 * records that an older drover does not know. */
static int check_schema(struct event_store *s, enum event_store_mode mode, struct err *e)
{
    int64_t app = 0, version = 0, tables = 0;
    if (query_int(s, "PRAGMA application_id", &app, e) < 0 ||
        query_int(s, "PRAGMA user_version", &version, e) < 0 ||
        query_int(s, "SELECT count(*) FROM sqlite_master", &tables, e) < 0)
        return e->code;
    if (app == 0 && version == 0 && tables == 0) {
        if (mode == EVENT_STORE_READ)
            return err_set(e, -ENOENT, "%s: the sweep has not started yet", s->path);
        AUTO(free)
        char *sql = xasprintf("BEGIN; PRAGMA application_id=%d; PRAGMA user_version=%d; %s COMMIT",
                              APPLICATION_ID, SCHEMA_VERSION, schema);
        return exec(s, sql, "create tables", e);
    }
    if (app != APPLICATION_ID)
        return err_set(e, -EBADMSG, "%s: not a database of drover", s->path);
    if (version > SCHEMA_VERSION)
        return err_set(e, -ENOTSUP, "%s: written by a newer drover (format %lld, supported: %d)",
                       s->path, (long long)version, SCHEMA_VERSION);
    if (mode == EVENT_STORE_READ)
        return 0;
    AUTO(free) char *sql = xasprintf("PRAGMA user_version=%d", SCHEMA_VERSION);
    int rc = check_pages(s, e);
    return rc < 0 || version == SCHEMA_VERSION ? rc : exec(s, sql, "write the format", e);
}

static int open_file(struct event_store *s, enum event_store_mode mode, struct err *e)
{
    int flags = mode == EVENT_STORE_WRITE ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                                          : SQLITE_OPEN_READONLY;
    if (mode == EVENT_STORE_READ && access(s->path, F_OK) < 0)
        return err_set(e, -errno, "%s: %s", s->path, strerror(errno));
    if (sqlite3_open_v2(s->path, &s->db, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
        int rc = s->db ? sqlite3_system_errno(s->db) : ENOMEM;
        return err_set(e, rc ? -rc : -EIO, "%s: %s", s->path,
                       rc ? strerror(rc) : sqlite3_errmsg(s->db));
    }
    sqlite3_extended_result_codes(s->db, 1);
    sqlite3_busy_timeout(s->db, BUSY_MS);
    return 0;
}

int event_store_open(struct event_store **out, const char *path, enum event_store_mode mode,
                     struct err *e)
{
    struct err local = {0};
    e = e ? e : &local;
    AUTO(event_store) struct event_store *s = xzalloc(sizeof *s);
    s->path = xstrdup(path);
    if (open_file(s, mode, e) < 0 || (mode == EVENT_STORE_WRITE && set_journal(s, e) < 0) ||
        check_schema(s, mode, e) < 0 ||
        prepare(s, &s->get, "SELECT value FROM meta WHERE key=?1", e) < 0)
        return e->code;
    if (mode == EVENT_STORE_WRITE &&
        (prepare(s, &s->append,
                 "INSERT INTO record(at_ms,kind,trial,lease,msg,data) VALUES(?1,?2,?3,?4,?5,?6)",
                 e) < 0 ||
         prepare(s, &s->put, "INSERT OR REPLACE INTO meta(key,value) VALUES(?1,?2)", e) < 0))
        return e->code;
    *out = TAKE(s);
    return 0;
}

void event_store_close(struct event_store *s)
{
    if (!s)
        return;
    sqlite3_finalize(s->append);
    sqlite3_finalize(s->put);
    sqlite3_finalize(s->get);
    (void)sqlite3_close(s->db); /* rolls back an open transaction; an error has no receiver */
    free(s->path);
    free(s);
}

/* Runs a statement that returns no row, in the transaction of the batch. */
static int write_row(struct event_store *s, sqlite3_stmt *st, struct err *e)
{
    int code = 0;
    if (sqlite3_step(st) != SQLITE_DONE) {
        code = failed(s, "write", e);
        s->broken = true;
    }
    (void)sqlite3_reset(st); /* repeats the error of the step */
    return code;
}

static int begin(struct event_store *s, struct err *e)
{
    assert(s->append); /* opened with EVENT_STORE_WRITE */
    if (s->broken)
        return err_set(e, -EIO, "%s: an earlier write failed", s->path);
    if (s->open_tx)
        return 0;
    if (exec(s, "BEGIN IMMEDIATE", "begin", e) < 0) {
        s->broken = true;
        return e ? e->code : -EIO;
    }
    s->open_tx = true;
    return 0;
}

int event_store_append(struct event_store *s, const struct scheduler_record *r, int64_t msg,
                       struct err *e)
{
    int rc = begin(s, e);
    if (rc < 0)
        return rc;
    AUTO(free) char *data = r->data ? json_dumps(r->data, JSON_COMPACT) : xstrdup("{}");
    if (!data) {
        s->broken = true;
        return err_set(e, -EINVAL, "%s: cannot encode a record as JSON", s->path);
    }
    const char *kind = kind_names[r->kind];
    sqlite3_bind_int64(s->append, 1, r->at_ms);
    sqlite3_bind_text(s->append, 2, kind, -1, SQLITE_STATIC);
    sqlite3_bind_int(s->append, 3, r->trial);
    sqlite3_bind_int64(s->append, 4, r->lease);
    sqlite3_bind_int64(s->append, 5, msg);
    sqlite3_bind_text(s->append, 6, data, -1, SQLITE_STATIC);
    rc = write_row(s, s->append, e);
    sqlite3_clear_bindings(s->append);
    return rc;
}

int event_store_put(struct event_store *s, const char *key, const char *value, struct err *e)
{
    int rc = begin(s, e);
    if (rc < 0)
        return rc;
    sqlite3_bind_text(s->put, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_text(s->put, 2, value, -1, SQLITE_STATIC);
    rc = write_row(s, s->put, e);
    sqlite3_clear_bindings(s->put);
    return rc;
}

int event_store_commit(struct event_store *s, struct err *e)
{
    if (s->broken)
        return err_set(e, -EIO, "%s: an earlier write failed", s->path);
    if (!s->open_tx)
        return 0;
    int rc = exec(s, "COMMIT", "commit", e);
    s->broken = rc < 0;
    s->open_tx = false;
    return rc;
}

int event_store_get(char **out, struct event_store *s, const char *key, struct err *e)
{
    sqlite3_bind_text(s->get, 1, key, -1, SQLITE_STATIC);
    int rc = sqlite3_step(s->get), code = 0;
    if (rc == SQLITE_ROW)
        *out = xstrdup((const char *)sqlite3_column_text(s->get, 0));
    else if (rc == SQLITE_DONE)
        *out = NULL;
    else
        code = failed(s, "read", e);
    (void)sqlite3_reset(s->get); /* repeats the error of the step */
    return code;
}

/* Reads a row of the table as a record, which owns its data. */
static int read_record(struct scheduler_record *r, sqlite3_stmt *st, const char *path,
                       struct err *e)
{
    const char *kind = (const char *)sqlite3_column_text(st, 1);
    const char *data = (const char *)sqlite3_column_text(st, 5);
    *r = (struct scheduler_record){.kind = SCHEDULER_REC_KINDS,
                                   .at_ms = sqlite3_column_int64(st, 0),
                                   .trial = sqlite3_column_int(st, 2),
                                   .lease = sqlite3_column_int64(st, 3)};
    for (int k = 0; kind && k < SCHEDULER_REC_KINDS; k++)
        if (strcmp(kind, kind_names[k]) == 0)
            r->kind = (enum scheduler_record_kind)k;
    r->data = data ? json_loads(data, JSON_DECODE_ANY, NULL) : NULL;
    if (r->kind == SCHEDULER_REC_KINDS || !json_is_object(r->data)) {
        json_decref(r->data);
        return err_set(e, -EBADMSG, "%s: damaged: record %lld is invalid", path,
                       (long long)sqlite3_column_int64(st, 6));
    }
    return 0;
}

int event_store_replay(struct event_store *s, event_store_record_fn fn, void *arg, struct err *e)
{
    sqlite3_stmt *st = NULL;
    if (prepare(s, &st, "SELECT at_ms,kind,trial,lease,msg,data,seq FROM record ORDER BY seq", e))
        return e ? e->code : -EIO;
    int rc, code = 0;
    while (code == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        struct scheduler_record r;
        code = read_record(&r, st, s->path, e);
        if (code < 0)
            break;
        code = fn(arg, &r, sqlite3_column_int64(st, 4), e);
        json_decref(r.data);
    }
    if (code == 0 && rc != SQLITE_DONE)
        code = failed(s, "read", e);
    sqlite3_finalize(st);
    return code;
}
