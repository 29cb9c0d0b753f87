/* file - whole files: written completely, read up to a limit, and replaced in one step. Files of
 * /proc and /sys, whose size is 0, are read as any other. Functions that return an int return 0 or
 * a negative errno; the caller describes the failure. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "common/strbuf.h"

enum {
    FILE_TEXT_MAX = 64 << 20, /* bytes that file_text() returns at most */
    FILE_LINE_MAX = 4096      /* bytes that file_line() and file_scan() read at most */
};

/* ---- writing -------------------------------------------------------------------------------- */

/* Writes all bytes, also if write(2) takes only a part or is interrupted. May be called in a
 * signal handler. */
int file_write_all(int fd, const void *bytes, size_t len);

/* Writes a file in place. A new file gets `mode`, less the umask; an existing one keeps its mode,
 * and loses its old content. */
int file_write(const char *path, const void *bytes, size_t len, mode_t mode);

/* Replaces a file in one step: `path` has its old content or all of the new one, also if this
 * process is killed. Several processes and threads may do this at once. The new file has `mode`,
 * whatever the umask; 0: 0666 less the umask. A device, such as /dev/null, is
 * written in place. */
int file_replace(const char *path, const void *bytes, size_t len, mode_t mode);

/* Does the same; once it has returned 0, the new content survives a power failure. */
int file_replace_durably(const char *path, const void *bytes, size_t len, mode_t mode);

/* Creates PATH.NUMBER.tmp with a random number, for what later gets the name `path`. It has `mode`
 * less the umask. Returns a descriptor for writing; the caller closes it, and frees *tmp. */
int file_create_tmp(char **tmp, const char *path, mode_t mode);

/* ---- reading -------------------------------------------------------------------------------- */

/* Appends what the descriptor still has, up to its end.
 *   -EFBIG  it has more than `max` bytes; `out` has the first `max` */
int file_read_fd(struct strbuf *out, int fd, size_t max);

/* Appends the content of a file. Errors as open(), read() and file_read_fd(). */
int file_read(struct strbuf *out, const char *path, size_t max);

/* Returns the text of a file, which is cut after FILE_TEXT_MAX bytes; NULL with errno: it cannot be
 * read. The caller frees it. Its lines:
 *
 *     for (char *rest = text, *line; (line = strsep(&rest, "\n"));)
 */
char *file_text(const char *path);

/* Returns the first line of a file without its newline; NULL with errno: it cannot be read. The
 * caller frees it. */
char *file_line(const char *path);

/* Returns the rest of the first line that begins with `name`, without blanks in front: of
 * /proc/meminfo "24 kB" for "Dirty:". NULL: there is no such line. The caller frees it. */
char *file_field(const char *path, const char *name);

/* Reads values from the beginning of a file as sscanf() does. Returns how many there are; 0: the
 * file cannot be read, or has another form. */
int file_scan(const char *path, const char *fmt, ...) __attribute__((format(scanf, 2, 3)));
