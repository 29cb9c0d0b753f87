/* event_store_feed - the feed: a copy of a store's records as lines of JSON, next to a store that
 * its writer has locked. The last member of a line is a checksum of the others. Only
 * readers use the feed; the writer makes the feed again whenever it starts.
 * If a line cannot be written, it is missing, and readers wait for it until the writer's next
 * start. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fnv_hash.h"
#include "common/json.h"
#include "common/private_dir.h"
#include "hpo/store/event_store_internal.h"

#define SUM ",\"sum\":\""

enum { READ_LINES = 5000 };

struct event_store_feed {
    char *path;
    FILE *file;
    ino_t inode;
    json_t *meta;
    char *line;
    size_t line_cap;
};

static char *path_of(const char *db, const char *suffix)
{
    return xasprintf("%s.feed%s", db, suffix);
}

/* ---- the writer ----------------------------------------------------------------------------- */

/* Writes an object whose text is `open`, without its last brace. */
static void write_line(struct event_store *s, const char *open)
{
    fprintf(s->feed, "%s" SUM "%016" PRIx64 "\"}\n", open, fnv_hash_text(FNV_HASH_INIT, open));
}

void event_store_feed_record(struct event_store *s, const struct event_store_row *r)
{
    if (!s->feed)
        return;
    AUTO(free)
    char *open = xasprintf("{\"seq\":%lld,\"at_ms\":%lld,\"kind\":\"%s\",\"trial\":%d,"
                           "\"lease\":%lld,\"msg\":%lld,\"data\":%s",
                           (long long)r->seq, (long long)r->at_ms, event_store_kind_name(r->kind),
                           r->trial, (long long)r->lease, (long long)r->msg, r->data);
    write_line(s, open);
}

void event_store_feed_meta(struct event_store *s, const char *key, const char *value)
{
    if (!s->feed)
        return;
    AUTO(json) json_t *line = json_pack("{s:s,s:s}", "meta", key, "value", value);
    AUTO(free) char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
    if (!text)
        return;
    text[strlen(text) - 1] = 0;
    write_line(s, text);
}

static int write_record(void *arg, const struct event_store_row *r, struct err *e)
{
    event_store_feed_record(arg, r);
    return 0;
}

static int write_meta(struct event_store *s, struct err *e)
{
    sqlite3_stmt *st = NULL;
    int rc = event_store_prepare(s, &st, "SELECT key,value FROM meta", e);
    if (rc < 0)
        return rc;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW)
        event_store_feed_meta(s, (const char *)sqlite3_column_text(st, 0),
                              (const char *)sqlite3_column_text(st, 1));
    int code = rc == SQLITE_DONE ? 0 : event_store_failed(s, "read", e);
    sqlite3_finalize(st);
    return code;
}

int event_store_feed_create(struct event_store *s, struct err *e)
{
    AUTO(free) char *path = path_of(s->path, ""), *fresh = path_of(s->path, ".new");
    s->feed = private_dir_fopen(fresh, "w");
    if (!s->feed)
        return err_set(e, -errno, "%s: %s", fresh, strerror(errno));
    int rc = fchmod(fileno(s->feed), event_store_permissions(s)) < 0 ? -errno : 0;
    rc = rc < 0 ? err_set(e, rc, "%s: %s", fresh, strerror(-rc)) : write_meta(s, e);
    int64_t last_seq = s->last_seq;
    while (rc >= 0 && (rc = event_store_read(s, write_record, s, e)) > 0)
        ;
    s->last_seq = last_seq;
    if (rc == 0 && (fflush(s->feed) != 0 || rename(fresh, path) < 0))
        rc = err_set(e, -errno, "%s: %s", path, strerror(errno));
    return rc;
}

void event_store_feed_remove(struct event_store *s)
{
    AUTO(free) char *path = path_of(s->path, "");
    if (!s->feed)
        return;
    (void)fclose(TAKE(s->feed));
    (void)unlink(path); /* the store is not locked any more, so readers open it */
}

/* ---- a reader ------------------------------------------------------------------------------- */

static int reopen(struct event_store_feed *f, struct err *e)
{
    struct stat st;
    if (f->file)
        (void)fclose(TAKE(f->file));
    f->file = fopen(f->path, "re");
    if (!f->file || fstat(fileno(f->file), &st) < 0)
        return err_set(e, -errno, "%s: %s", f->path, strerror(errno));
    f->inode = st.st_ino;
    return 0;
}

/* Whether the last member of a line is the checksum of the others. */
static bool sum_is_right(char *line)
{
    char *sum = strrchr(line, ',');
    if (!sum || strncmp(sum, SUM, sizeof SUM - 1) != 0)
        return false;
    *sum = 0;
    uint64_t expected = fnv_hash_text(FNV_HASH_INIT, line);
    *sum = ',';
    return strtoull(sum + sizeof SUM - 1, NULL, 16) == expected;
}

/* Reads the next whole line as JSON to *out (new reference); NULL if there is none yet. On a
 * network file system a part of a line that comes later reads as zeros until then. */
static int next_line(json_t **out, struct event_store_feed *f, struct err *e)
{
    off_t before = ftello(f->file);
    ssize_t n = getline(&f->line, &f->line_cap, f->file);
    *out = NULL;
    if (n <= 0 || f->line[n - 1] != '\n' || memchr(f->line, 0, (size_t)n)) {
        clearerr(f->file);
        (void)fseeko(f->file, before, SEEK_SET);
        return 0;
    }
    if (sum_is_right(f->line))
        *out = json_loadb(f->line, (size_t)n, 0, NULL);
    return *out ? 0
                : err_set(e, -EBADMSG, "%s: damaged: a line does not match its checksum", f->path);
}

/* Whether the feed of another sweep has replaced the one that was read so far. */
static bool is_replaced(const struct event_store_feed *f, const json_t *line)
{
    const char *key = json_string_value(json_object_get(line, "meta"));
    const json_t *was = json_object_get(f->meta, EVENT_STORE_META_INSTANCE);
    return key && was && strcmp(key, EVENT_STORE_META_INSTANCE) == 0 &&
           !json_equal(was, json_object_get(line, "value"));
}

static bool read_meta_line(struct event_store_feed *f, const json_t *line)
{
    const char *key = json_string_value(json_object_get(line, "meta"));
    if (key)
        json_object_set(f->meta, key, json_object_get(line, "value"));
    return key != NULL;
}

int event_store_feed_open(struct event_store_feed **out, const char *db, struct err *e)
{
    struct event_store_feed *f = xzalloc(sizeof *f);
    f->path = path_of(db, "");
    f->meta = json_object();
    int rc = reopen(f, e);
    for (bool meta = true; rc == 0 && meta;) { /* the lines of `meta` come first */
        off_t before = ftello(f->file);
        AUTO(json) json_t *line = NULL;
        rc = next_line(&line, f, e);
        meta = read_meta_line(f, line);
        if (!meta)
            (void)fseeko(f->file, before, SEEK_SET);
    }
    if (rc < 0) {
        event_store_feed_close(f);
        return rc;
    }
    *out = f;
    return 0;
}

void event_store_feed_close(struct event_store_feed *f)
{
    if (!f)
        return;
    if (f->file)
        (void)fclose(f->file);
    json_decref(f->meta);
    free(f->line);
    free(f->path);
    free(f);
}

const char *event_store_feed_get(const struct event_store_feed *f, const char *key)
{
    return json_string_value(json_object_get(f->meta, key));
}

/* Calls fn with the record of a line. Does nothing if fn has already got the record. Returns
 * -EAGAIN if the previous record is missing. */
static int deliver(const json_t *line, int64_t *last_seq, event_store_row_fn fn, void *arg,
                   struct err *e)
{
    const char *kind = json_string_value(json_object_get(line, "kind"));
    json_int_t trial = json_integer_value(json_object_get(line, "trial"));
    AUTO(free) char *data = json_dumps(json_object_get(line, "data"), JSON_COMPACT);
    struct event_store_row r = {.seq = json_integer_value(json_object_get(line, "seq")),
                                .at_ms = json_integer_value(json_object_get(line, "at_ms")),
                                .kind = kind ? event_store_kind(kind) : SCHEDULER_REC_KINDS,
                                .trial = (int)trial,
                                .lease = json_integer_value(json_object_get(line, "lease")),
                                .msg = json_integer_value(json_object_get(line, "msg")),
                                .data = data,
                                .len = data ? strlen(data) : 0};
    if (r.seq <= *last_seq)
        return 0;
    if (r.seq != *last_seq + 1)
        return -EAGAIN;
    if (trial < INT_MIN || trial > INT_MAX || !event_store_is_valid(&r))
        return err_set(e, -EBADMSG, "the feed is damaged: record %lld is invalid",
                       (long long)r.seq);
    int rc = fn(arg, &r, e);
    if (rc == 0)
        *last_seq = r.seq;
    return rc;
}

int event_store_feed_read(struct event_store_feed *f, int64_t *last_seq, event_store_row_fn fn,
                          void *arg, struct err *e)
{
    struct stat st;
    if (stat(f->path, &st) == 0 && st.st_ino != f->inode && reopen(f, e) < 0)
        return e ? e->code : -EIO;
    for (int i = 0; i < READ_LINES; i++) {
        off_t before = ftello(f->file);
        AUTO(json) json_t *line = NULL;
        int rc = next_line(&line, f, e);
        if (rc < 0 || !line)
            return rc;
        if (is_replaced(f, line))
            return event_store_replaced(f->path, e);
        rc = read_meta_line(f, line) ? 0 : deliver(line, last_seq, fn, arg, e);
        if (rc == -EAGAIN)
            (void)fseeko(f->file, before, SEEK_SET);
        if (rc < 0)
            return rc == -EAGAIN ? 0 : rc;
    }
    return 1;
}
