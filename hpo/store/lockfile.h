/* lockfile - a file that one process at a time locks while it runs, and that names this process.
 *
 * The lock belongs to an open file description (F_OFD_SETLK). The kernel drops it with the last
 * descriptor, so kill -9 leaves no stale lock, and other processes can test it without acquiring
 * it. */
#ifndef DROVER_LOCKFILE_H
#define DROVER_LOCKFILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"

struct lockfile_owner {
    bool held;
    pid_t pid; /* of the owner or, if it is not held, of the last owner; 0: not known (yet) */
    char host[256];
    char note[256]; /* a word that the same owner wrote */
};

/* Acquires the lock and writes this process, its host and `note` (a word; NULL: none) into the
 * file. *out is a close-on-exec descriptor; closing it, or the end of the process, releases the
 * lock. -EBUSY  another process holds it; the text names the process and its host */
int lockfile_acquire(int *out, const char *path, const char *note, struct err *e);

/* Reads the owner. A file that does not exist is not held. */
int lockfile_read_owner(struct lockfile_owner *out, const char *path, struct err *e);

#endif
