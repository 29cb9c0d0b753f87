/* event_store - all records of a sweep in an SQLite file that survives kill -9 and power loss.
 *
 *     event_store_append(s, &record, 0, e); …      the records of one commit batch
 *     event_store_commit(s, e);                    one fsync for all of them; then act
 *
 * Tables: record(seq, at_ms, kind, trial, lease, msg, data, sum), in the order of the events, and
 * meta(key, value). `sum` is a checksum of the record; records of older formats have none. On local
 * disks the journal is a WAL, so that other processes can read while the coordinator writes. A
 * commit that finds 256 pages (1 MiB) in the WAL copies them into the file, which takes a few ms
 * (docs/measurements/sweep.md). A WAL cannot be shared on a network file system. There the store
 * uses a rollback journal and an exclusive lock, and readers use the feed, a copy of the records as
 * lines of JSON. The sweep's lock file ensures that there is one writer, not this module.
 *
 * A reader writes nothing next to the store and needs no write permission. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/scheduler/scheduler.h"

struct event_store;

enum event_store_mode {
    EVENT_STORE_WRITE, /* creates the file if it does not exist */
    EVENT_STORE_READ,  /* writes nothing, needs no write permission */
};

/*   -ENOENT   EVENT_STORE_READ, and the file does not exist or has had no commit yet
 *   -ENOTSUP  written by a newer drover
 *   -EBADMSG  damaged, or not a store of drover
 *   -EIO, -ENOSPC, -EACCES, -EROFS, -EBUSY  as SQLite reports */
int event_store_open(struct event_store **out, const char *path, enum event_store_mode mode,
                     struct err *e);
/* Sets what is asked before each transaction and each commit. If `fn` fails, so does the call, and
 * nothing is written any more, also not by event_store_close(). */
typedef int (*event_store_guard_fn)(void *arg, struct err *e);
void event_store_set_guard(struct event_store *s, event_store_guard_fn fn, void *arg);
/* Drops records that are not committed. */
void event_store_close(struct event_store *s);
AUTO_DEFINE(event_store, struct event_store *, event_store_close)

/* Adds a record to the next commit. `msg` is the number of the worker's message that caused the
 * record (0: none). The other columns are those of `r`. After a failure every further call fails,
 * since the caller's state and the stored records then differ. */
int event_store_append(struct event_store *s, const struct scheduler_record *r, int64_t msg,
                       struct err *e);
/* Names the value of `meta` that says which sweep it is (sweep_dir.h). */
#define EVENT_STORE_META_INSTANCE "instance"
/* Sets a value of `meta`, with the next commit. */
int event_store_put(struct event_store *s, const char *key, const char *value, struct err *e);
/* Commits the records. They are on disk when this returns 0. Does nothing if there are none. */
int event_store_commit(struct event_store *s, struct err *e);

/* Returns the mode of a new file next to the store. Other users may read it if they may read the
 * store, as its user may have opened the store to them. */
mode_t event_store_permissions(const struct event_store *s);

/* Returns a value of `meta` in *out, which the caller frees; NULL if the key does not exist. */
int event_store_get(char **out, struct event_store *s, const char *key, struct err *e);

/* A record as it is stored. `data` is text, NUL-terminated, borrowed during the call. */
struct event_store_row {
    int64_t seq, at_ms, lease, msg;
    enum scheduler_record_kind kind;
    int trial;
    const char *data;
    size_t len;
};
typedef int (*event_store_row_fn)(void *arg, const struct event_store_row *r, struct err *e);

/* Calls `fn` for the committed records that it has not got yet, in order. Ends after some thousand
 * records or 20 ms, so that the writer can always recycle its journal. Returns 1 if there are more
 * records, 0 if there are no more now, or the first result of `fn` that is below 0.
 *   -EBADMSG  a record is damaged or missing: its checksum, a type or a range is wrong; the text
 *             names it */
int event_store_read(struct event_store *s, event_store_row_fn fn, void *arg, struct err *e);

/* Calls `fn` for each committed record in order, from the first one; r is borrowed during the call.
 * Stops at the first result that is not 0 and returns it. */
typedef int (*event_store_record_fn)(void *arg, const struct scheduler_record *r, int64_t msg,
                                     struct err *e);
int event_store_replay(struct event_store *s, event_store_record_fn fn, void *arg, struct err *e);
