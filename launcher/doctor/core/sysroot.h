/* sysroot - the files of the machine, or of a recorded one: $DROVER_SYSROOT precedes every path of
 * /proc, /sys, /dev and /etc that a check reads. Checks read these paths only through this module.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/mem.h"

/* Returns $DROVER_SYSROOT, or "". */
const char *sysroot(void);

/* Returns the path of a file, with the root; `fmt` is absolute. The caller frees it. */
char *sysroot_path(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Returns the text of a file without its last newline, as file_text() does; NULL with errno. The
 * caller frees it. */
char *sysroot_read(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Returns true if there is such a file. */
bool sysroot_exists(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Reads a whole file as a decimal number. Returns false, with errno, if it has none. */
bool sysroot_number(long long *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Returns the names in a directory, sorted, without "." and ".." (a strv); NULL: none, or none that
 * can be read. */
char **sysroot_list(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
