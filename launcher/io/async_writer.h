/* async_writer - non-blocking writes to a descriptor that other programs share (stdout or stderr),
 * without changing its flags.
 *
 * O_NONBLOCK belongs to the open file, which the shell and its other programs share. So the writer
 * opens a pipe or terminal again for itself, and sends to a socket with MSG_DONTWAIT. If neither is
 * possible, it writes few bytes whenever poll() reports that the output is writable. Files are
 * written directly. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

enum {
    ASYNC_WRITER_FULL = 1 << 20, /* the caller should pause if more bytes are queued */
    ASYNC_WRITER_LOW = 1 << 18   /* the caller may resume if fewer bytes are queued */
};

struct async_writer;

/* Opens a writer. The loop calls `moved(arg)` when fewer than ASYNC_WRITER_LOW bytes are queued,
 * when the queue is empty, and when writing has failed. Borrows `fd`. The caller must ignore
 * SIGPIPE. */
int async_writer_open(struct async_writer **out, uv_loop_t *loop, int fd, void (*moved)(void *arg),
                      void *arg, struct err *e);
/* Drops the queue. The handles close in the loop's next iteration. */
void async_writer_close(struct async_writer *w);
AUTO_DEFINE(async_writer, struct async_writer *, async_writer_close)

/* Queues the bytes. If many bytes are queued, they are written immediately, otherwise before the
 * loop waits. */
void async_writer_add(struct async_writer *w, const void *bytes, size_t len);
/* Returns the number of queued bytes. */
size_t async_writer_waiting(const struct async_writer *w);
/* Returns the error of writing (-EPIPE, -ENOSPC, …), or 0. After an error, all bytes are
 * dropped. */
int async_writer_error(const struct async_writer *w);

/* Returns true if both descriptors refer to the same file, pipe or terminal. */
bool async_writer_same(int fd_a, int fd_b);
