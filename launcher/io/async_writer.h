/* outlet - bytes on their way to a descriptor that others share (our stdout or stderr): written
 * without waiting and without changing how the others see it.
 *
 * O_NONBLOCK belongs to the open file, which our shell and its other programs have too; so a pipe
 * or terminal is opened again for ourselves, a socket is sent to with MSG_DONTWAIT, and where
 * neither is possible we write a little whenever poll() allows. Files are written directly. */
#ifndef DROVER_ASYNC_WRITER_H
#define DROVER_ASYNC_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

enum {
    ASYNC_WRITER_FULL = 1 << 20, /* more than this waits: the writer should pause */
    ASYNC_WRITER_LOW = 1 << 18   /* less than this: it may go on */
};

struct async_writer;

/* `moved(arg)` is called from the loop when less than ASYNC_WRITER_LOW bytes wait, when none does,
 * and when writing has failed. Borrows `fd`. SIGPIPE is to be ignored by the caller. */
int async_writer_open(struct async_writer **out, uv_loop_t *loop, int fd, void (*moved)(void *arg),
                      void *arg, struct err *e);
/* Drops what waits. Its handles close on the loop's next turn. */
void async_writer_close(struct async_writer *o);
AUTO_DEFINE(async_writer, struct async_writer *, async_writer_close)

/* Queues the bytes; they are written when many wait, else before the loop waits next. */
void async_writer_add(struct async_writer *o, const void *bytes, size_t len);
/* Bytes that wait. */
size_t async_writer_waiting(const struct async_writer *o);
/* Why writing has failed: -EPIPE, -ENOSPC, …; 0: it has not. After it, bytes are dropped. */
int async_writer_error(const struct async_writer *o);

/* Whether both descriptors lead to the same file, pipe or terminal. */
bool async_writer_same(int fd_a, int fd_b);

#endif
