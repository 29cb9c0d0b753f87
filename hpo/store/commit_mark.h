/* commit_mark - how much a store has acknowledged, in a file next to it: FILE.db-mark.
 *
 * SQLite ends its log (FILE.db-wal) at the first frame that is damaged or missing, without an
 * error. So a flipped bit, a log that was cut, or one that was not copied along would drop results
 * that were acknowledged. The writer notes after each commit how many records and values the store
 * has now. A store that has fewer is damaged.
 *
 * The note is written after the commit is on disk, and is not synced itself: after a power failure
 * it may be older than the store, never newer. It has two places, written in turn, each with a
 * checksum. If a write of one is torn, the other one counts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

struct commit_mark {
    int64_t records; /* the number of the last record */
    int64_t puts;    /* how often a value of `meta` was set */
};

/* Reads the mark of the store `db`.
 *   -ENOENT   there is no file
 *   -EBADMSG  the file has no place with a right checksum
 *   others    as open() */
int commit_mark_read(struct commit_mark *out, const char *db, struct err *e);

/* Makes the file, with `m` in both places, and syncs it and its name. Returns its descriptor in
 * *fd, which the caller closes. Errors are those of open(), write() and fsync(). */
int commit_mark_create(int *fd, const char *db, mode_t mode, const struct commit_mark *m,
                       struct err *e);

/* Writes a commit's mark to the place that is next. After a failure the
 * mark is only older. */
void commit_mark_write(int fd, const struct commit_mark *m);
