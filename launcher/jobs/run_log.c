#include "launcher/jobs/run_log.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "launcher/jobs/sqlite.h"

enum {
    PENDING_MAX = 16 << 20, /* bytes that wait for a reader of the file */
    REPORT_BYTES = 80,      /* of the file, for each report */
    ROW_BYTES = 100,        /* the same for other rows, in addition to their data */
    BASE_BYTES = 64 << 10,  /* the same for an empty log */
    FILE_MAX = 64 << 20,
    THIN_ROWS = 4000, /* that one pass looks at … */
    LAST_PASSES = 64, /* … of which the last commit has several */
    LAST_WAIT_MS = 1000
};

struct row {
    int64_t at_ms;
    const char *kind; /* NULL: a value of meta */
    int rank;
    char *key, *data;
};

struct run_log {
    char *id;
    struct sqlite_file file;
    bool made; /* the file has its tables */
    struct row *rows;
    size_t count, bytes; /* that wait */
    int64_t allowed;     /* bytes that the file may have, without FILE_MAX */
    int64_t thin_at;     /* the row up to which this pass has looked for what may go … */
    int thin_bit;        /* … which are the rows whose mixed number has this bit */
};

struct run_log *run_log_new(const char *id)
{
    struct run_log *l = xzalloc(sizeof *l);
    l->id = xstrdup(id);
    l->allowed = BASE_BYTES;
    return l;
}

static void drop_rows(struct run_log *l)
{
    for (size_t i = 0; i < l->count; i++) {
        free(l->rows[i].key);
        free(l->rows[i].data);
    }
    l->count = l->bytes = 0;
}

void run_log_close(struct run_log *l)
{
    if (!l)
        return;
    drop_rows(l);
    sqlite_close(&l->file);
    free(l->rows);
    free(l->id);
    free(l);
}

const char *run_log_id(const struct run_log *l)
{
    return l->id;
}

/* ---- add ------------------------------------------------------------------------------------ */

static void push(struct run_log *l, struct row r, json_t *data)
{
    AUTO(json) json_t *own = data;
    r.data = json_line(own);
    size_t len = strlen(r.data);
    l->rows = xgrow(l->rows, l->count, sizeof r);
    l->rows[l->count++] = r;
    l->bytes += len;
    l->allowed += r.kind && strcmp(r.kind, "report") == 0 ? REPORT_BYTES : ROW_BYTES + (int64_t)len;
}

void run_log_add(struct run_log *l, const char *kind, int rank, json_t *data)
{
    if (l->bytes < PENDING_MAX)
        push(l, (struct row){.at_ms = clock_ms_of(CLOCK_REALTIME), .kind = kind, .rank = rank},
             data);
    else
        json_decref(data);
}

void run_log_put(struct run_log *l, const char *key, json_t *value)
{
    if (value)
        push(l, (struct row){.key = xstrdup(key)}, value);
}

/* ---- write ---------------------------------------------------------------------------------- */

static int open_file(struct run_log *l, struct err *e)
{
    AUTO(free) char *dir = NULL;
    if (strchr(l->id, '/'))
        return err_set(e, -EINVAL, "run '%s': its id contains a '/'", l->id);
    if (sqlite_dir(&dir, "runs", true, e) < 0)
        return e->code;
    AUTO(free) char *path = xasprintf("%s/%s.db", dir, l->id);
    if (access(path, F_OK) == 0) { /* an id of the user's own (--rdzv-id) */
        char *id = xasprintf("%s.%d", l->id, (int)getpid());
        free(l->id);
        l->id = id;
        free(path);
        path = xasprintf("%s/%s.db", dir, id);
    }
    return sqlite_open(&l->file, path, true, 0, e);
}

/* Begins a transaction; of a new file, with its tables. */
static int begin(struct run_log *l, bool last, struct err *e)
{
    static const char schema[] =
        "CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;"
        "CREATE TABLE record(seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL,"
        " kind TEXT NOT NULL, rank INTEGER NOT NULL, data TEXT NOT NULL)";
    if (!l->file.db && open_file(l, e) < 0)
        return e->code;
    sqlite.busy_timeout(l->file.db, last ? LAST_WAIT_MS : 0);
    if (l->made)
        return sqlite_exec(&l->file, "BEGIN IMMEDIATE", e);
    AUTO(free)
    char *sql = xasprintf("PRAGMA synchronous=OFF; PRAGMA auto_vacuum=FULL; BEGIN IMMEDIATE;"
                          "PRAGMA application_id=%d; PRAGMA user_version=%d; %s",
                          RUN_LOG_APPLICATION_ID, RUN_LOG_FORMAT, schema);
    return sqlite_exec(&l->file, sql, e);
}

static int insert(const struct run_log *l, sqlite3_stmt *st, const struct row *r, struct err *e)
{
    if (r->kind) {
        sqlite.bind_int64(st, 1, r->at_ms);
        sqlite.bind_text(st, 2, r->kind, -1, SQLITE_STATIC);
        sqlite.bind_int64(st, 3, r->rank);
        sqlite.bind_text(st, 4, r->data, -1, SQLITE_STATIC);
    } else {
        sqlite.bind_text(st, 1, r->key, -1, SQLITE_STATIC);
        sqlite.bind_text(st, 2, r->data, -1, SQLITE_STATIC);
    }
    int rc = sqlite.step(st) == SQLITE_DONE ? 0 : sqlite_failed(&l->file, e);
    sqlite.reset(st);
    return rc;
}

static int insert_rows(const struct run_log *l, struct err *e)
{
    sqlite3_stmt *record = NULL, *meta = NULL;
    int rc = sqlite_prepare(&l->file, &record,
                            "INSERT INTO record(at_ms, kind, rank, data) VALUES(?, ?, ?, ?)", e);
    if (rc == 0)
        rc = sqlite_prepare(&l->file, &meta, "INSERT OR REPLACE INTO meta VALUES(?, ?)", e);
    for (size_t i = 0; i < l->count && rc == 0; i++)
        rc = insert(l, l->rows[i].kind ? record : meta, &l->rows[i], e);
    sqlite.finalize(record);
    sqlite.finalize(meta);
    return rc;
}

/* Removes every second report of the next rows if the file is too large. The number of a row is
 * mixed, so that it is not always the same rank's that goes. */
static int thin(struct run_log *l, struct err *e)
{
    int64_t bytes = 0, last = 0;
    if (sqlite_query(&l->file,
                     "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, "
                     "pragma_freelist_count, pragma_page_size",
                     &bytes, e) < 0 ||
        sqlite_query(&l->file, "SELECT max(seq) FROM record", &last, e) < 0)
        return e->code;
    if (bytes <= l->allowed && bytes <= FILE_MAX)
        return 0;
    if (l->thin_bit == 0 || l->thin_at >= last) {
        l->thin_bit = l->thin_bit < 1 << 20 && l->thin_bit ? l->thin_bit << 1 : 1;
        l->thin_at = 0;
    }
    AUTO(free)
    char *sql = xasprintf("DELETE FROM record WHERE seq > %lld AND seq <= %lld AND "
                          "kind IN ('report', 'sample') AND (seq * 2654435761 >> 11) & %d",
                          (long long)l->thin_at, (long long)l->thin_at + THIN_ROWS, l->thin_bit);
    l->thin_at += THIN_ROWS;
    return sqlite_exec(&l->file, sql, e);
}

int run_log_commit(struct run_log *l, bool last, struct err *e)
{
    struct err own = {0};
    e = e ? e : &own;
    if (l->count == 0 && l->made)
        return 0;
    int rc = begin(l, last, e);
    if (rc == 0)
        rc = insert_rows(l, e);
    for (int i = 0; i < (last ? LAST_PASSES : 1) && rc == 0; i++)
        rc = thin(l, e);
    if (rc == 0)
        rc = sqlite_exec(&l->file, "COMMIT", e);
    l->made |= rc == 0;
    if (rc < 0 && l->file.db)
        (void)sqlite_exec(&l->file, "ROLLBACK", NULL); /* it may have rolled back already */
    if (rc == -EBUSY && !last)
        return 0;
    drop_rows(l);
    return rc;
}
