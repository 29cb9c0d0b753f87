/* stdin_broadcast - copies a descriptor to several ranks of this node: each gets all of the input
 * through a pipe of its own.
 *
 * Input is read as fast as the slowest rank consumes it. A rank that has closed its stdin does not
 * count. */
#pragma once

#include <uv.h>

#include "common/err.h"

struct stdin_broadcast;

/* Opens `count` pipes. `fd` is duplicated. */
int stdin_broadcast_open(struct stdin_broadcast **out, uv_loop_t *loop, int fd, int count,
                         struct err *e);
/* Returns the read end of pipe `i`, which the caller closes. Call this only once per pipe. */
int stdin_broadcast_take(struct stdin_broadcast *b, int i);
/* Closes the pipes. The handles close in the loop's next iteration. `b` may be NULL. */
void stdin_broadcast_close(struct stdin_broadcast *b);
