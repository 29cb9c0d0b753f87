/* sweep_archive - puts a sweep out of the way: renames its directory to NAME.1, NAME.2, …, or
 * removes it. No process may work on it. */
#pragma once

#include "common/err.h"
#include "common/mem.h"

struct sweep_archive {
    char *root, *name;
    char *path;                /* absolute */
    struct sweep_owner *owner; /* no coordinator can start */
};

/* Locks a sweep.
 *   -ENOENT  there is no sweep with this name
 *   -EBUSY   a coordinator or a worker of the sweep is running; the text names it */
int sweep_archive_lock(struct sweep_archive **out, const char *root, const char *name,
                       struct err *e);
void sweep_archive_unlock(struct sweep_archive *a);
AUTO_DEFINE(sweep_archive, struct sweep_archive *, sweep_archive_unlock)

/* Renames the directory, or the link to it; *out is the new name of the sweep, which the caller
 * frees. Errors as rename(), and -ENAMETOOLONG  the new name would be too long */
int sweep_archive_rename(char **out, struct sweep_archive *a, struct err *e);

/* Removes the directory and all files in it. If it is interrupted, the sweep exists until it is
 * removed again. Errors as unlink() and rmdir(). */
int sweep_archive_remove(struct sweep_archive *a, struct err *e);
