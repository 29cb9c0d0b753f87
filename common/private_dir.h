/* private_dir - directories and files that only this user can access (modes 0700 and 0600),
 * whatever the umask. */
#pragma once

#include <stdio.h>

#include "common/err.h"

/* Checks that `path` is a directory of this user that others cannot access, and not a link.
 *   -EPERM  another user owns it or has access */
int private_dir_check(const char *path, struct err *e);

/* Creates `path`, unless it exists, and checks it. The directory above must exist. */
int private_dir_make(const char *path, struct err *e);

/* Returns the private directory in `base` ("/tmp"), in which every user may create names. It is
 * BASE/drover-UID. If another user has created that name, or has access to it, it is
 * BASE/drover-UID-XXXXXX with random letters; every process of this user finds the same one. The
 * caller frees the path. */
int private_dir_in(char **out, const char *base, struct err *e);

/* Opens a file as fopen() does with the modes "w" and "a", and closes it in child processes. A new
 * file has mode 0600; an existing one keeps its mode. Returns NULL with errno on failure. */
FILE *private_dir_fopen(const char *path, const char *mode);
