/* event_store_meta - the values of a store, and the check that it has all that was committed.
 *
 * `meta` is read in the order of its rows, not by its index: an index that is damaged finds
 * nothing, and reports nothing. */
#include <errno.h>
#include <string.h>

#include "common/fnv_hash.h"
#include "common/log.h"
#include "hpo/store/event_store_internal.h"

/* A key of `meta`: how often a value was set. It has the last row, since every put replaces it. */
#define PUTS "puts"

static int64_t sum_of(const char *key, const char *value)
{
    return (int64_t)fnv_hash_text(fnv_hash_text(FNV_HASH_INIT, key), value);
}

static int put(struct event_store *s, const char *key, const char *value, struct err *e)
{
    sqlite3_bind_text(s->put, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_text(s->put, 2, value, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s->put, 3, sum_of(key, value));
    int rc = event_store_write_row(s, s->put, e);
    sqlite3_clear_bindings(s->put);
    return rc;
}

int event_store_put(struct event_store *s, const char *key, const char *value, struct err *e)
{
    int rc = event_store_begin(s, e);
    if (rc == 0)
        rc = put(s, key, value, e);
    if (rc < 0)
        return rc;
    event_store_feed_meta(s, key, value);
    char puts[24];
    snprintf(puts, sizeof puts, "%lld", (long long)++s->mark.puts);
    return put(s, PUTS, puts, e);
}

int event_store_get(char **out, struct event_store *s, const char *key, struct err *e)
{
    const char *fed = s->feed_reader ? event_store_feed_get(s->feed_reader, key) : NULL;
    if (s->feed_reader) {
        *out = fed ? xstrdup(fed) : NULL;
        return 0;
    }
    sqlite3_bind_text(s->get, 1, key, -1, SQLITE_STATIC);
    int rc = sqlite3_step(s->get), code = 0;
    if (rc == SQLITE_ROW)
        *out = xstrdup((const char *)sqlite3_column_text(s->get, 0));
    else if (rc == SQLITE_DONE)
        *out = NULL;
    else
        code = event_store_failed(s, "read", e);
    (void)sqlite3_reset(s->get); /* repeats the error of the step */
    return code;
}

/* Values of older formats have no checksum. */
static int check_row(struct event_store *s, sqlite3_stmt *st, struct err *e)
{
    const char *key = (const char *)sqlite3_column_text(st, 0);
    const char *value = (const char *)sqlite3_column_text(st, 1);
    bool sum = sqlite3_column_type(st, 2) != SQLITE_NULL;
    if (!key || !value || (sum && sqlite3_column_int64(st, 2) != sum_of(key, value)))
        return err_set(e, -EBADMSG, "%s: damaged: value '%s' does not match its checksum", s->path,
                       key ? key : "");
    if (strcmp(key, PUTS) == 0)
        s->mark.puts = strtoll(value, NULL, 10);
    return 0;
}

static int check_values(struct event_store *s, struct err *e)
{
    sqlite3_stmt *st = NULL;
    int rc = event_store_prepare(s, &st, "SELECT key,value,sum FROM meta NOT INDEXED", e), code = 0;
    if (rc < 0)
        return rc;
    s->mark.puts = 0;
    while (code == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW)
        code = check_row(s, st, e);
    if (code == 0 && rc != SQLITE_DONE)
        code = event_store_failed(s, "read", e);
    sqlite3_finalize(st);
    return code;
}

static int lost(const struct event_store *s, struct err *e)
{
    if (s->mark.records < s->had.records)
        err_set(e, -EBADMSG, "%s: damaged: records %lld to %lld, which were acknowledged, are lost",
                s->path, (long long)s->mark.records + 1, (long long)s->had.records);
    else
        err_set(e, -EBADMSG, "%s: damaged: its last value, which was acknowledged, is lost",
                s->path);
    return err_hint(e, "bring back %s and %s-wal as they were, or accept the loss: rm '%s-mark'",
                    s->path, s->path, s->path);
}

void event_store_read_mark(struct event_store *s)
{
    s->had_error = (struct err){0};
    if (commit_mark_read(&s->had, s->path, &s->had_error) < 0)
        s->had = (struct commit_mark){0};
}

int event_store_check_meta(struct event_store *s, bool marked, struct err *e)
{
    int rc = check_values(s, e);
    if (rc == 0)
        rc = event_store_query_int(s, "SELECT coalesce(max(seq),0) FROM record", &s->mark.records,
                                   e);
    if (rc < 0 || !marked)
        return rc;
    if (s->had_error.code < 0 && !s->had_error_shown)
        log_warn("%s; nothing tells whether results are missing at the end of %s",
                 s->had_error.text, s->path);
    s->had_error_shown |= s->had_error.code < 0;
    return s->mark.records < s->had.records || s->mark.puts < s->had.puts ? lost(s, e) : 0;
}
