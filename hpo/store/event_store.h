/* store - what happened in a sweep, in an SQLite file that survives kill -9 and power loss.
 *
 *     event_store_append(s, &record, 0, e); …      a turn of the loop
 *     event_store_commit(s, e);                    one fsync for all of them; then act
 *
 * Tables: record(seq, at_ms, kind, trial, lease, msg, data), in the order of what happened, and
 * meta(key, value). On local disks the journal is a WAL, so that others may read while the
 * coordinator writes; the commit that finds 1,000 pages in it copies them into the file, which
 * takes few ms (docs/measurements/sweep.md). On network file systems, where a WAL cannot be shared,
 * a rollback journal and an exclusive lock. One writer: the sweep's lock file sees to that, not
 * this module. */
#ifndef DROVER_EVENT_STORE_H
#define DROVER_EVENT_STORE_H

#include <stdint.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/scheduler/scheduler.h"

struct event_store;

enum event_store_mode {
    EVENT_STORE_WRITE, /* made where it does not exist */
    EVENT_STORE_READ,  /* writes nothing, needs no write permission */
};

/*   -ENOENT   EVENT_STORE_READ, and there is no such file (or one that never got its first commit)
 *   -ENOTSUP  written by a newer drover
 *   -EBADMSG  damaged, or no store of drover's
 *   -EIO, -ENOSPC, -EACCES, -EROFS, -EBUSY as SQLite says */
int event_store_open(struct event_store **out, const char *path, enum event_store_mode mode,
                     struct err *e);
/* What was appended and not committed is dropped. */
void event_store_close(struct event_store *s);
AUTO_DEFINE(event_store, struct event_store *, event_store_close)

/* Part of the next commit. `msg` is the number of the worker's message that caused the record
 * (0: none); r->at_ms, kind, trial, lease and data are written as they are. After a failure the
 * store takes nothing more: what the caller believes and what is stored have parted. */
int event_store_append(struct event_store *s, const struct scheduler_record *r, int64_t msg,
                       struct err *e);
/* Part of the next commit. */
int event_store_put(struct event_store *s, const char *key, const char *value, struct err *e);
/* On the disk when it returns 0. Nothing appended: nothing done. */
int event_store_commit(struct event_store *s, struct err *e);

/* A value of its own in *out; NULL where the key is not there. */
int event_store_get(char **out, struct event_store *s, const char *key, struct err *e);

/* Each committed record in order; r is borrowed during the call. Stops at the first result that is
 * not 0 and returns it. */
typedef int (*event_store_record_fn)(void *arg, const struct scheduler_record *r, int64_t msg,
                                     struct err *e);
int event_store_replay(struct event_store *s, event_store_record_fn fn, void *arg, struct err *e);

#endif
