/* own_process - this process: the location of its program, and its descriptors. */
#ifndef DROVER_OWN_PROCESS_H
#define DROVER_OWN_PROCESS_H

#include "common/err.h"

/* Returns the program's file (`levels` 0), its directory (1), the directory above that (2), … The
 * root is "", so that "/…" may follow. The caller frees the path.
 *   -ENOENT  there are fewer levels */
int own_process_dir_above(char **out, int levels, struct err *e);

/* Returns the path of another program of drover: `drover` in bin, all others in libexec/drover
 * next to it, both in the build tree and where drover is installed. Also works in tests of the
 * build tree. The caller frees the path. The program may not exist. */
int own_process_sibling(char **out, const char *name, struct err *e);

/* Opens /dev/null for standard descriptors that are closed. Otherwise another file would get a
 * descriptor below 3, and ranks would inherit it. */
void own_process_ensure_std_fds(void);

/* Some libraries abort the process if they cannot open a descriptor while they start (libuv,
 * ZeroMQ), and others crash. This number is enough for all of them. */
enum { OWN_PROCESS_FILES_MIN = 64 };

/* Checks that this process may open OWN_PROCESS_FILES_MIN files.
 *   -EMFILE  it may not: the limit of descriptors is too low */
int own_process_check_files(struct err *e);

#endif
