/* self - where this program lies. */
#ifndef DROVER_SELF_H
#define DROVER_SELF_H

#include "common/err.h"

/* The program's file (`up` 0), its directory (1), the one above that (2), … The root is "",
 * so that "/…" may follow. To be freed.
 *   -ENOENT  there are not so many above it */
int self_path(char **out, int up, struct err *e);

#endif
