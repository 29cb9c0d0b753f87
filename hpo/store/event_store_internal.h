/* event_store_internal - the state and functions that the files of event_store share. */
#pragma once

#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>

#include "hpo/store/commit_mark.h"
#include "hpo/store/event_store.h"

enum { EVENT_STORE_MARK_SINCE = 4 /* the format from which on a store has a mark */ };

enum event_store_way { /* how a reader gets at the records (event_store_reader.c) */
                       EVENT_STORE_BY_WAL,
                       EVENT_STORE_BY_IMMUTABLE,
                       EVENT_STORE_BY_COPY,
                       EVENT_STORE_BY_FEED
};

struct event_store {
    sqlite3 *db; /* NULL: a reader of the feed */
    char *path;
    sqlite3_stmt *append, *put, *get, *read;
    bool open_tx; /* there are records that are not committed */
    bool broken;
    bool lost;                  /* the guard has failed: nothing may be written any more */
    event_store_guard_fn guard; /* NULL: none */
    void *guard_arg;
    struct commit_mark mark; /* what the store has; of a writer: after the next commit */
    struct commit_mark had;  /* what its mark said when it was opened */
    struct err had_error;    /* why it said nothing */
    bool had_error_shown;
    int mark_fd; /* -1: a reader */
    FILE *feed;  /* the feed that the writer writes on a network file system; NULL: none */

    /* only for a reader: */
    enum event_store_way way;
    int64_t last_seq; /* the record that was delivered last */
    char *copy_dir;   /* EVENT_STORE_BY_COPY: the private directory; NULL */
    struct {          /* the files when they were opened, to notice changes */
        int64_t size[2], mtime_ns[2], inode;
    } seen;
    struct event_store_feed *feed_reader; /* EVENT_STORE_BY_FEED */
};

/* A reader may not mix the records of two sweeps. Returns -ESTALE. */
int event_store_replaced(const char *path, struct err *e);
/* Describes SQLite's last error. Returns the negative errno for it. */
int event_store_failed(const struct event_store *s, const char *doing, struct err *e);
int event_store_prepare(struct event_store *s, sqlite3_stmt **out, const char *sql, struct err *e);
/* Opens the file with SQLite, without reading it. `how` are parameters of a URI. */
int event_store_open_db(struct event_store *s, const char *path, int flags, const char *how,
                        int busy_ms, struct err *e);
/* Checks that the file is a store of drover that this version can read, and prepares the statements
 * of a reader. Sets *version to the format of the file. */
int event_store_check_format(struct event_store *s, int64_t *version, struct err *e);
int event_store_prepare_read(struct event_store *s, int64_t version, struct err *e);
/* Sets *out to the number in the first column of the first row. */
int event_store_query_int(struct event_store *s, const char *sql, int64_t *out, struct err *e);
/* Begins the transaction of the batch, if it has not begun. */
int event_store_begin(struct event_store *s, struct err *e);
/* Runs a statement that returns no row, in the transaction of the batch. */
int event_store_write_row(struct event_store *s, sqlite3_stmt *st, struct err *e);
/* Reads the mark. This comes before the store is opened, since a writer may be at work. */
void event_store_read_mark(struct event_store *s);
/* Compares the values of `meta` with their checksums and, if `marked`, what the store has with the
 * mark that was read. Warns if there is none.
 *   -EBADMSG  something is missing or differs; the text names it */
int event_store_check_meta(struct event_store *s, bool marked, struct err *e);
/* Finalizes the statements and closes the database. */
void event_store_close_db(struct event_store *s);

/* Whether the fields of a record are in their ranges, and its kind is known. */
bool event_store_is_valid(const struct event_store_row *r);
/* Returns the kind with this name, or SCHEDULER_REC_KINDS if there is none. */
enum scheduler_record_kind event_store_kind(const char *name);
const char *event_store_kind_name(enum scheduler_record_kind kind);

/* ---- a reader (event_store_reader.c) -------------------------------------------------------- */

int event_store_open_reader(struct event_store *s, struct err *e);
void event_store_close_reader(struct event_store *s);
/* Opens the files again if they were replaced. Does the same if they have changed and the reader
 * cannot see changes (EVENT_STORE_BY_IMMUTABLE, EVENT_STORE_BY_COPY). */
int event_store_refresh_reader(struct event_store *s, struct err *e);

/* ---- the feed: a copy of the records as lines of JSON (event_store_feed.c) ------------------ */

struct event_store_feed;

/* Writes the feed of a store from its beginning, and keeps it open for event_store_feed_record()
 * and event_store_feed_meta(). */
int event_store_feed_create(struct event_store *s, struct err *e);
void event_store_feed_record(struct event_store *s, const struct event_store_row *r);
void event_store_feed_meta(struct event_store *s, const char *key, const char *value);
/* Closes and removes the feed. */
void event_store_feed_remove(struct event_store *s);

/*   -ENOENT   there is no feed
 *   -EBADMSG  a line does not match its checksum */
int event_store_feed_open(struct event_store_feed **out, const char *db, struct err *e);
void event_store_feed_close(struct event_store_feed *f);
/* Reads records as event_store_read() does. */
int event_store_feed_read(struct event_store_feed *f, int64_t *last_seq, event_store_row_fn fn,
                          void *arg, struct err *e);
/* Returns a value of `meta` from the lines read so far, or NULL if there is none. Borrowed. */
const char *event_store_feed_get(const struct event_store_feed *f, const char *key);
