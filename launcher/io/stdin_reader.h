/* stdin_reader - reads a descriptor as fast as a remote receiver consumes it: the launcher's stdin
 * for a rank on another node.
 *
 * The descriptor is shared with other programs (the shell), so its flags do not change. If the loop
 * can watch the descriptor, it is read when it is readable. Files and devices are read without
 * waiting. */
#pragma once

#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

enum { STDIN_READER_WINDOW = 64 << 10 /* bytes that are read and not credited yet */ };

struct stdin_reader;

/* Opens a reader. The loop calls `bytes` with the input. A `len` of 0 means end of file or a read
 * error; no call follows. `fd` is duplicated. */
int stdin_reader_open(struct stdin_reader **out, uv_loop_t *loop, int fd,
                      void (*bytes)(void *arg, const char *bytes, size_t len), void *arg,
                      struct err *e);
/* Credits `len` bytes, which the receiver has consumed. */
void stdin_reader_credit(struct stdin_reader *s, size_t len);
/* Closes the reader. Its handles close in the loop's next iteration. */
void stdin_reader_close(struct stdin_reader *s);
AUTO_DEFINE(stdin_reader, struct stdin_reader *, stdin_reader_close)
