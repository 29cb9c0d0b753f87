/* event_store - all records of a sweep in an SQLite file that survives kill -9 and power loss.
 *
 *     event_store_append(s, &record, 0, e); …      the records of one commit batch
 *     event_store_commit(s, e);                    one fsync for all of them; then act
 *
 * Tables: record(seq, at_ms, kind, trial, lease, msg, data), in the order of the events, and
 * meta(key, value). On local disks the journal is a WAL, so that other processes can read while the
 * coordinator writes. The commit that finds 256 pages (1 MiB) in it copies them into the file,
 * which takes a few ms (docs/measurements/sweep.md). Network file systems cannot share a WAL: there
 * the store uses a rollback journal and an exclusive lock. The sweep's lock file ensures that there
 * is one writer, not this module. */
#ifndef DROVER_EVENT_STORE_H
#define DROVER_EVENT_STORE_H

#include <stdint.h>

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
/* Drops records that are not committed. */
void event_store_close(struct event_store *s);
AUTO_DEFINE(event_store, struct event_store *, event_store_close)

/* Adds a record to the next commit. `msg` is the number of the worker's message that caused it (0:
 * none); r->at_ms, kind, trial, lease and data are written unchanged. After a failure every call
 * fails, since the state of the caller and the stored records have diverged. */
int event_store_append(struct event_store *s, const struct scheduler_record *r, int64_t msg,
                       struct err *e);
/* Sets a value of `meta`, with the next commit. */
int event_store_put(struct event_store *s, const char *key, const char *value, struct err *e);
/* The records are on disk when it returns 0. Does nothing if there are none. */
int event_store_commit(struct event_store *s, struct err *e);

/* Returns a value of `meta` in *out, which the caller frees; NULL if the key does not exist. */
int event_store_get(char **out, struct event_store *s, const char *key, struct err *e);

/* Calls `fn` for each committed record in order; r is borrowed during the call. Stops at the first
 * result that is not 0 and returns it. */
typedef int (*event_store_record_fn)(void *arg, const struct scheduler_record *r, int64_t msg,
                                     struct err *e);
int event_store_replay(struct event_store *s, event_store_record_fn fn, void *arg, struct err *e);

#endif
