/* lockfile - a file that one process holds for as long as it lives, and that tells who it is.
 *
 * The lock is an open file description's (F_OFD_SETLK): the kernel drops it with the last
 * descriptor, so kill -9 leaves no stale lock, and others can ask without taking it. */
#ifndef DROVER_LOCKFILE_H
#define DROVER_LOCKFILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/err.h"

struct lockfile_owner {
    bool held;
    pid_t pid; /* of the owner or, where it is not held, of the last one; 0: not known (yet) */
    char host[256];
    char note[256]; /* what it wrote beside; of the last owner where it is not held */
};

/* Takes the lock and writes who holds it and `note` (a word; NULL: none); *out is a close-on-exec
 * descriptor: closing it (or the process' end) lets go. -EBUSY  another holds it: the text names
 * its process and host */
int lockfile_acquire(int *out, const char *path, const char *note, struct err *e);

/* Who holds it. A file that is not there is held by nobody. */
int lockfile_read_owner(struct lockfile_owner *out, const char *path, struct err *e);

#endif
