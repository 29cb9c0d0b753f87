#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/durable.h"
#include "common/fnv_hash.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "hpo/store/event_store_internal.h"

enum {
    SCHEMA_VERSION = 4,          /* PRAGMA user_version */
    SUM_SINCE = 3,               /* records have checksums */
    APPLICATION_ID = 0x64726f76, /* "drov": PRAGMA application_id */
    BUSY_MS = 5000,              /* how long another program may block the writer */
    JOURNAL_MAX = 4 << 20,       /* bytes that a WAL keeps after a checkpoint */
    READ_ROWS = 5000,            /* maximum of rows per event_store_read() */
    READ_MS = 20
};

static const char schema[] =
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL, sum INTEGER);"
    "CREATE TABLE record("
    "  seq INTEGER PRIMARY KEY,"
    "  at_ms INTEGER NOT NULL,"
    "  kind TEXT NOT NULL,"
    "  trial INTEGER NOT NULL,"
    "  lease INTEGER NOT NULL,"
    "  msg INTEGER NOT NULL,"
    "  data TEXT NOT NULL,"
    "  sum INTEGER);";

/* The statements that convert a store from format i to format i + 1. An older drover refuses the
 * converted file. */
static const char *const migrations[SCHEMA_VERSION] = {
    [1] = "", /* 2 has records `asked` and `retried` */
    [2] = "ALTER TABLE record ADD COLUMN sum INTEGER;",
    [3] = "ALTER TABLE meta ADD COLUMN sum INTEGER;", /* 4 has a mark (commit_mark.h), too */
};

static const char *const kind_names[SCHEDULER_REC_KINDS] = {
    [SCHEDULER_REC_CREATED] = "created",   [SCHEDULER_REC_LEASED] = "leased",
    [SCHEDULER_REC_REPORT] = "report",     [SCHEDULER_REC_STOPPING] = "stopping",
    [SCHEDULER_REC_REQUEUED] = "requeued", [SCHEDULER_REC_ENDED] = "ended",
    [SCHEDULER_REC_PAUSING] = "pausing",   [SCHEDULER_REC_PAUSED] = "paused",
    [SCHEDULER_REC_COMMAND] = "asked",     [SCHEDULER_REC_RETRIED] = "retried",
};

enum scheduler_record_kind event_store_kind(const char *name)
{
    int k = 0;
    while (k < SCHEDULER_REC_KINDS && strcmp(name, kind_names[k]) != 0)
        k++;
    return (enum scheduler_record_kind)k;
}

const char *event_store_kind_name(enum scheduler_record_kind kind)
{
    return kind_names[kind];
}

/* Returns the checksum of a record, over all fields except `seq`. */
static int64_t sum_of(const struct event_store_row *r)
{
    const int64_t numbers[] = {r->at_ms, r->trial, r->lease, r->msg};
    uint64_t h = fnv_hash_bytes(FNV_HASH_INIT, numbers, sizeof numbers);
    h = fnv_hash_text(h, kind_names[r->kind]);
    return (int64_t)fnv_hash_bytes(h, r->data, r->len);
}

/* Returns the negative errno for an error code of SQLite. */
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

int event_store_failed(const struct event_store *s, const char *doing, struct err *e)
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
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : event_store_failed(s, doing, e);
}

int event_store_prepare(struct event_store *s, sqlite3_stmt **out, const char *sql, struct err *e)
{
    return sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL) == SQLITE_OK
               ? 0
               : event_store_failed(s, "prepare", e);
}

/* Copies the first column of the first row to `out`. */
static int query_text(struct event_store *s, const char *sql, char *out, size_t len, struct err *e)
{
    sqlite3_stmt *st = NULL;
    if (event_store_prepare(s, &st, sql, e) < 0)
        return err_wrap(e, "open");
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        snprintf(out, len, "%s", (const char *)sqlite3_column_text(st, 0));
    int code = rc == SQLITE_ROW ? 0 : event_store_failed(s, "open", e);
    sqlite3_finalize(st);
    return code;
}

static int set_journal(struct event_store *s, struct err *e)
{
    char mode[16] = "";
    /* A WAL needs shared memory, which network file systems do not provide. */
    if (!durable_network(s->path) &&
        query_text(s, "PRAGMA journal_mode=WAL", mode, sizeof mode, e) < 0)
        return e->code;
    if (strcmp(mode, "wal") != 0 &&
        exec(s, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=TRUNCATE", "journal", e) < 0)
        return e->code;
    /* A WAL of 256 pages (1 MiB) is soon overwritten. If the file grew instead, commits would be
     * slower. */
    AUTO(free)
    char *sql = xasprintf("PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=256; "
                          "PRAGMA journal_size_limit=%d",
                          JOURNAL_MAX);
    return exec(s, sql, "synchronous", e);
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

int event_store_query_int(struct event_store *s, const char *sql, int64_t *out, struct err *e)
{
    char text[32];
    int rc = query_text(s, sql, text, sizeof text, e);
    if (rc == 0)
        *out = strtoll(text, NULL, 10);
    return rc;
}

int event_store_check_format(struct event_store *s, int64_t *version, struct err *e)
{
    int64_t app = 0, tables = 0;
    if (event_store_query_int(s, "PRAGMA application_id", &app, e) < 0 ||
        event_store_query_int(s, "PRAGMA user_version", version, e) < 0 ||
        event_store_query_int(s, "SELECT count(*) FROM sqlite_master", &tables, e) < 0)
        return e->code;
    if (app == 0 && *version == 0 && tables == 0)
        return err_set(e, -ENOENT, "%s: the sweep has not started yet", s->path);
    if (app != APPLICATION_ID)
        return err_set(e, -EBADMSG, "%s: not a database of drover", s->path);
    if (*version < 1 || *version > SCHEMA_VERSION)
        return err_set(e, -ENOTSUP, "%s: written by a newer drover (format %lld, supported: %d)",
                       s->path, (long long)*version, SCHEMA_VERSION);
    return 0;
}

/* Creates the tables of a new file, or brings an older format to the present one, in one
 * transaction. */
static int migrate(struct event_store *s, int64_t version, struct err *e)
{
    AUTO(strbuf) struct strbuf sql = {0};
    strbuf_puts(&sql, "BEGIN; ");
    if (version == 0)
        strbuf_printf(&sql, "PRAGMA application_id=%d; %s", APPLICATION_ID, schema);
    for (int64_t v = version; v > 0 && v < SCHEMA_VERSION; v++)
        strbuf_puts(&sql, migrations[v]);
    strbuf_printf(&sql, "PRAGMA user_version=%d; COMMIT", SCHEMA_VERSION);
    return exec(s, strbuf_str(&sql), "write the format", e);
}

int event_store_open_db(struct event_store *s, const char *path, int flags, const char *how,
                        int busy_ms, struct err *e)
{
    AUTO(strbuf) struct strbuf uri = {0};
    strbuf_puts(&uri, "file:");
    for (const char *c = path; *c; c++) /* escapes the characters that have a meaning in a URI */
        strbuf_printf(&uri, strchr("%?#", *c) ? "%%%02X" : "%c", (unsigned char)*c);
    strbuf_puts(&uri, how);
    if (sqlite3_open_v2(strbuf_str(&uri), &s->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI,
                        NULL) != SQLITE_OK) {
        int rc = s->db ? sqlite3_system_errno(s->db) : ENOMEM;
        return err_set(e, rc ? -rc : -EIO, "%s: %s", s->path,
                       rc ? strerror(rc) : sqlite3_errmsg(s->db));
    }
    sqlite3_extended_result_codes(s->db, 1);
    sqlite3_busy_timeout(s->db, busy_ms);
    return 0;
}

int event_store_prepare_read(struct event_store *s, int64_t version, struct err *e)
{
    AUTO(free)
    char *sql = xasprintf("SELECT seq,at_ms,kind,trial,lease,msg,data,%s FROM record "
                          "WHERE seq>?1 ORDER BY seq LIMIT %d",
                          version >= SUM_SINCE ? "sum" : "NULL", READ_ROWS);
    int rc = event_store_prepare(s, &s->read, sql, e);
    return rc < 0 ? rc
                  : event_store_prepare(s, &s->get,
                                        "SELECT value FROM meta NOT INDEXED WHERE key=?1", e);
}

mode_t event_store_permissions(const struct event_store *s)
{
    struct stat st;
    return 0600 | (stat(s->path, &st) == 0 ? st.st_mode & 0444 : 0);
}

/* A new store is private, whatever the umask. SQLite gives the journal the mode of the store. */
static void create_private(const char *path)
{
    AUTO(fd) int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    (void)fd; /* SQLite reports why it cannot be opened */
}

static int open_writer(struct event_store *s, struct err *e)
{
    int64_t version = 0;
    event_store_read_mark(s);
    create_private(s->path);
    int rc =
        event_store_open_db(s, s->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, "", BUSY_MS, e);
    if (rc == 0)
        rc = set_journal(s, e);
    if (rc == 0)
        rc = event_store_check_format(s, &version, e);
    if (rc == -ENOENT) { /* a new file */
        rc = 0;
        *e = (struct err){0};
    } else if (rc == 0) {
        rc = check_pages(s, e);
    }
    if (rc == 0)
        rc = commit_mark_create(&s->mark_fd, s->path, event_store_permissions(s), &s->had, e);
    if (rc == 0 && version < SCHEMA_VERSION)
        rc = migrate(s, version, e);
    if (rc == 0)
        rc = event_store_prepare_read(s, SCHEMA_VERSION, e);
    if (rc == 0)
        rc = event_store_check_meta(s, version >= EVENT_STORE_MARK_SINCE, e);
    if (rc == 0)
        rc = event_store_prepare(s, &s->append,
                                 "INSERT INTO record(at_ms,kind,trial,lease,msg,data,sum) "
                                 "VALUES(?1,?2,?3,?4,?5,?6,?7)",
                                 e);
    if (rc == 0)
        rc = event_store_prepare(s, &s->put,
                                 "INSERT OR REPLACE INTO meta(key,value,sum) VALUES(?1,?2,?3)", e);
    return rc == 0 && durable_network(s->path) ? event_store_feed_create(s, e) : rc;
}

int event_store_open(struct event_store **out, const char *path, enum event_store_mode mode,
                     struct err *e)
{
    struct err local = {0};
    e = e ? e : &local;
    AUTO(event_store) struct event_store *s = xzalloc(sizeof *s);
    s->path = xstrdup(path);
    s->mark_fd = -1;
    int rc = mode == EVENT_STORE_WRITE ? open_writer(s, e) : event_store_open_reader(s, e);
    if (rc < 0)
        return rc;
    *out = TAKE(s);
    return 0;
}

void event_store_close_db(struct event_store *s)
{
    sqlite3_finalize(TAKE(s->append));
    sqlite3_finalize(TAKE(s->put));
    sqlite3_finalize(TAKE(s->get));
    sqlite3_finalize(TAKE(s->read));
    /* Rolls back an open transaction; an error cannot be reported */
    (void)sqlite3_close(TAKE(s->db));
}

void event_store_set_guard(struct event_store *s, event_store_guard_fn fn, void *arg)
{
    s->guard = fn;
    s->guard_arg = arg;
}

static int ask_guard(struct event_store *s, struct err *e)
{
    int rc = s->broken ? err_set(e, -EIO, "%s: an earlier write failed", s->path) : 0;
    if (rc == 0 && s->guard && (rc = s->guard(s->guard_arg, e)) < 0)
        s->lost = s->broken = true;
    return rc;
}

void event_store_close(struct event_store *s)
{
    if (!s)
        return;
    if (!s->broken)
        (void)ask_guard(s, NULL);
    /* SQLite would write to the file if it closed it. The kernel closes it with the process. */
    if (!s->lost) {
        event_store_feed_remove(s);
        event_store_close_db(s);
    }
    event_store_close_reader(s);
    if (s->mark_fd >= 0)
        close(s->mark_fd);
    free(s->path);
    free(s);
}

int event_store_write_row(struct event_store *s, sqlite3_stmt *st, struct err *e)
{
    int code = 0;
    if (sqlite3_step(st) != SQLITE_DONE) {
        code = event_store_failed(s, "write", e);
        s->broken = true;
    }
    (void)sqlite3_reset(st); /* repeats the error of the step */
    return code;
}

int event_store_begin(struct event_store *s, struct err *e)
{
    assert(s->append); /* the store was opened with EVENT_STORE_WRITE */
    if (s->open_tx && !s->broken)
        return 0;
    int rc = ask_guard(s, e);
    if (rc < 0)
        return rc;
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
    int rc = event_store_begin(s, e);
    if (rc < 0)
        return rc;
    AUTO(free) char *data = r->data ? json_dumps(r->data, JSON_COMPACT) : xstrdup("{}");
    if (!data) {
        s->broken = true;
        return err_set(e, -EINVAL, "%s: cannot encode a record as JSON", s->path);
    }
    struct event_store_row row = {.at_ms = r->at_ms,
                                  .kind = r->kind,
                                  .trial = r->trial,
                                  .lease = r->lease,
                                  .msg = msg,
                                  .data = data,
                                  .len = strlen(data)};
    sqlite3_bind_int64(s->append, 1, r->at_ms);
    sqlite3_bind_text(s->append, 2, kind_names[r->kind], -1, SQLITE_STATIC);
    sqlite3_bind_int(s->append, 3, r->trial);
    sqlite3_bind_int64(s->append, 4, r->lease);
    sqlite3_bind_int64(s->append, 5, msg);
    sqlite3_bind_text(s->append, 6, data, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s->append, 7, sum_of(&row));
    rc = event_store_write_row(s, s->append, e);
    sqlite3_clear_bindings(s->append);
    row.seq = sqlite3_last_insert_rowid(s->db);
    if (rc == 0) {
        s->mark.records = row.seq;
        event_store_feed_record(s, &row);
    }
    return rc;
}

int event_store_commit(struct event_store *s, struct err *e)
{
    if (!s->open_tx && !s->broken)
        return 0;
    int rc = ask_guard(s, e);
    if (rc < 0)
        return rc;
    rc = exec(s, "COMMIT", "commit", e);
    s->broken = rc < 0;
    s->open_tx = false;
    if (rc == 0)
        commit_mark_write(s->mark_fd, &s->mark);
    if (rc == 0 && s->feed)
        (void)fflush(s->feed); /* if this fails, readers of the feed wait for the missing records */
    return rc;
}

/* ---- reading -------------------------------------------------------------------------------- */

bool event_store_is_valid(const struct event_store_row *r)
{
    static const int64_t at_max = (int64_t)1 << 53;
    return r->kind < SCHEDULER_REC_KINDS && r->data && r->trial >= -1 && r->lease >= 0 &&
           r->lease < INT_MAX && r->msg >= 0 && r->at_ms >= 0 && r->at_ms < at_max;
}

/* Whether the columns of a record have their types, as SQLite also stores others. A record without
 * a checksum has data that may be anything. */
static bool has_types(sqlite3_stmt *st)
{
    static const int types[] = {SQLITE_INTEGER, SQLITE_INTEGER, SQLITE_TEXT, SQLITE_INTEGER,
                                SQLITE_INTEGER, SQLITE_INTEGER, SQLITE_TEXT};
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (sqlite3_column_type(st, (int)i) != types[i])
            return false;
    int64_t trial = sqlite3_column_int64(st, 3);
    if (trial < INT_MIN || trial > INT_MAX)
        return false;
    if (sqlite3_column_type(st, 7) != SQLITE_NULL)
        return true;
    const char *data = (const char *)sqlite3_column_text(st, 6);
    AUTO(json) json_t *object = json_loadb(data, (size_t)sqlite3_column_bytes(st, 6), 0, NULL);
    return json_is_object(object);
}

/* `expected`: its number, which follows that of the record before it. */
static int read_row(struct event_store_row *r, sqlite3_stmt *st, int64_t expected, const char *path,
                    struct err *e)
{
    if (sqlite3_column_int64(st, 0) != expected)
        return err_set(e, -EBADMSG, "%s: damaged: record %lld is missing", path,
                       (long long)expected);
    bool typed = has_types(st);
    const char *kind = (const char *)sqlite3_column_text(st, 2);
    *r = (struct event_store_row){.seq = sqlite3_column_int64(st, 0),
                                  .at_ms = sqlite3_column_int64(st, 1),
                                  .kind = kind ? event_store_kind(kind) : SCHEDULER_REC_KINDS,
                                  .trial = sqlite3_column_int(st, 3),
                                  .lease = sqlite3_column_int64(st, 4),
                                  .msg = sqlite3_column_int64(st, 5),
                                  .data = (const char *)sqlite3_column_text(st, 6),
                                  .len = (size_t)sqlite3_column_bytes(st, 6)};
    bool no_sum = sqlite3_column_type(st, 7) == SQLITE_NULL;
    if (!typed || !event_store_is_valid(r))
        return err_set(e, -EBADMSG, "%s: damaged: record %lld is invalid", path, (long long)r->seq);
    if (!no_sum && sqlite3_column_int64(st, 7) != sum_of(r))
        return err_set(e, -EBADMSG, "%s: damaged: record %lld does not match its checksum", path,
                       (long long)r->seq);
    return 0;
}

static int read_db(struct event_store *s, event_store_row_fn fn, void *arg, struct err *e)
{
    int64_t until_ms = clock_ms() + READ_MS;
    int rc = SQLITE_DONE, code = 0, rows = 0;
    sqlite3_bind_int64(s->read, 1, s->last_seq);
    while (code == 0 && (rc = sqlite3_step(s->read)) == SQLITE_ROW) {
        struct event_store_row r;
        code = read_row(&r, s->read, s->last_seq + 1, s->path, e);
        if (code == 0)
            code = fn(arg, &r, e);
        if (code == 0)
            s->last_seq = r.seq;
        if (++rows % 64 == 0 && clock_ms() >= until_ms)
            break;
    }
    if (code == 0 && rc != SQLITE_DONE && rc != SQLITE_ROW)
        code = event_store_failed(s, "read", e);
    (void)sqlite3_reset(s->read); /* ends the transaction */
    return code < 0 ? code : rc == SQLITE_ROW || rows == READ_ROWS;
}

int event_store_read(struct event_store *s, event_store_row_fn fn, void *arg, struct err *e)
{
    int rc = s->append ? 0 : event_store_refresh_reader(s, e);
    if (rc < 0)
        return rc;
    return s->feed_reader ? event_store_feed_read(s->feed_reader, &s->last_seq, fn, arg, e)
                          : read_db(s, fn, arg, e);
}

struct replay {
    struct event_store *store;
    event_store_record_fn fn;
    void *arg;
    int result; /* the result of fn if it is not 0 */
};

static int replay_row(void *arg, const struct event_store_row *row, struct err *e)
{
    struct replay *p = arg;
    AUTO(json) json_t *data = json_loadb(row->data, row->len, JSON_DECODE_ANY, NULL);
    if (!json_is_object(data))
        return err_set(e, -EBADMSG, "%s: damaged: record %lld is invalid", p->store->path,
                       (long long)row->seq);
    const struct scheduler_record r = {row->kind, row->at_ms, row->trial, row->lease, data};
    struct err why = {0};
    p->result = p->fn(p->arg, &r, row->msg, &why);
    if (p->result == -EINVAL) /* the record contradicts earlier ones */
        return err_set(e, -EBADMSG, "%s: damaged: record %lld: %s", p->store->path,
                       (long long)row->seq, why.text);
    if (p->result < 0 && e)
        *e = why;
    return p->result < 0 ? p->result : 0;
}

int event_store_replay(struct event_store *s, event_store_record_fn fn, void *arg, struct err *e)
{
    struct replay p = {s, fn, arg, 0};
    int rc;
    s->last_seq = 0;
    do
        rc = event_store_read(s, replay_row, &p, e);
    while (rc > 0);
    return rc;
}
