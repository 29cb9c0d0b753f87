/* self - where this program lies, and what it begins with. */
#ifndef DROVER_OWN_PROCESS_H
#define DROVER_OWN_PROCESS_H

#include "common/err.h"

/* The program's file (`up` 0), its directory (1), the one above that (2), … The root is "",
 * so that "/…" may follow. To be freed.
 *   -ENOENT  there are not so many above it */
int own_process_dir_above(char **out, int up, struct err *e);

/* Where another of our programs is, or would be: `drover` in bin, each other in libexec/drover
 * beside it, in the build tree and where installed. A test in the build tree may ask, too. To be
 * freed. */
int own_process_sibling(char **out, const char *name, struct err *e);

/* To begin with: a descriptor below 3 that is closed would become something else's, and then the
 * ranks'. */
void own_process_ensure_std_fds(void);

#endif
