/* source - a descriptor that is read as fast as somebody far away takes it: the launcher's stdin
 * for rank 0.
 *
 * The descriptor is shared with others (our shell), so it stays as it is: where the loop can watch
 * it, it is read when something is there; files and devices are read at once. */
#ifndef DROVER_STDIN_READER_H
#define DROVER_STDIN_READER_H

#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

enum { STDIN_READER_WINDOW = 64 << 10 /* bytes that are read and not yet taken */ };

struct stdin_reader;

/* `bytes` comes from the loop; len 0 is the end (or a failure of reading), after which nothing
 * comes. `fd` is duplicated. */
int stdin_reader_open(struct stdin_reader **out, uv_loop_t *loop, int fd,
                      void (*bytes)(void *arg, const char *bytes, size_t len), void *arg,
                      struct err *e);
/* So much of it was taken. */
void stdin_reader_credit(struct stdin_reader *s, size_t len);
/* Its handles close on the loop's next turn. */
void stdin_reader_close(struct stdin_reader *s);
AUTO_DEFINE(stdin_reader, struct stdin_reader *, stdin_reader_close)

#endif
