/* lockfile - a file that only one process at a time can lock while it runs, and that names this
 * process.
 *
 * The lock belongs to an open file description (F_OFD_SETLK). The kernel drops it with the last
 * descriptor, so kill -9 leaves no stale lock, and other processes can test it without acquiring
 * it. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"

struct lockfile_owner {
    bool held;
    pid_t pid; /* pid of the owner, or of the last owner if the lock is not held; 0: not known, or
                  not known yet */
    char host[256];
    char note[256]; /* a word that this owner wrote */
};

/* Acquires the lock and writes this process, its host and `note` (a word; NULL: none) into the
 * file. *out is a close-on-exec descriptor. The lock is released when the descriptor is closed or
 * the process ends.
 *   -EBUSY  another process holds the lock; the text names the process and its host */
int lockfile_acquire(int *out, const char *path, const char *note, struct err *e);

/* Returns true if `path` no longer names the file that `fd` has locked: it was removed, or another
 * one has its place. False if that cannot be told. */
bool lockfile_is_gone(int fd, const char *path);

/* Reads the owner. If the file does not exist, the lock counts as not held. */
int lockfile_read_owner(struct lockfile_owner *out, const char *path, struct err *e);
