/* own_process - this process: the location of its program, its descriptors, and its memory. */
#pragma once

#include "common/err.h"

/* Sets `*out` to the path of this program's file (`levels` 0), of its directory (1), of the
 * directory above (2), and so on. The root directory is "", so that a caller can append "/…". The
 * caller frees the path.
 *   -ENOENT  the path has fewer levels */
int own_process_dir_above(char **out, int levels, struct err *e);

/* Sets `*out` to the path of another program of drover, which may not exist. `drover` itself is in
 * bin, all other programs are in libexec/drover next to bin, in the build tree as in an installed
 * drover. Test programs of the build tree may call this, too. The caller frees the path. */
int own_process_sibling(char **out, const char *name, struct err *e);

/* Sets `*out` to the path of a file that drover brings along, `name` in share/drover: "trial" is a
 * directory. The file may not exist. The caller frees the path. Errors as own_process_sibling(). */
int own_process_share(char **out, const char *name, struct err *e);

/* Finds the first program `name` in `path`, a value of PATH (NULL: the usual directories), that is
 * not a link to drover. A name with a slash is a path itself. The caller frees `*out`.
 *   -ENOENT  there is none */
int own_process_find_program(char **out, const char *name, const char *path);

/* Opens /dev/null for standard descriptors that are closed. Otherwise another file would get a
 * descriptor below 3, and ranks would inherit it. */
void own_process_ensure_std_fds(void);

/* Some libraries abort the process if they cannot open a descriptor while they start (libuv,
 * ZeroMQ), and others crash. This number is enough for all of them. */
enum { OWN_PROCESS_FILES_MIN = 64 };

/* Checks that this process may open OWN_PROCESS_FILES_MIN files.
 *   -EMFILE  it may not: the limit of descriptors is too low */
int own_process_check_files(struct err *e);

/* Flushes stdout. Returns `status`, or 1 instead of 0, after a message, if stdout could not be
 * written. A reader that has closed it wants no more: then `status` stays. For main programs, as
 * their last call. */
int own_process_flush(int status);

/* If there is no memory, jansson and libuv end this process with a message, as xzalloc() does.
 * Otherwise libuv calls abort() without a message, and jansson returns a NULL that the next of its
 * functions takes for a missing value. For main programs, as their first call. */
void own_process_exit_without_memory(void);
