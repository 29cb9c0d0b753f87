/* feed - what is typed at our terminal, for a rank to read from a pipe.
 *
 * A rank has no terminal of its own to read from. Nothing is read while the shell has us in the
 * background: that would stop us. */
#ifndef DROVER_TTY_STDIN_H
#define DROVER_TTY_STDIN_H

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

struct tty_stdin;

/* `*read_fd` is the pipe's read end: the caller's, to hand on and close. */
int tty_stdin_open(struct tty_stdin **out, int *read_fd, uv_loop_t *loop, int tty_fd,
                   struct err *e);
/* Its handles close on the loop's next turn. */
void tty_stdin_close(struct tty_stdin *f);
AUTO_DEFINE(tty_stdin, struct tty_stdin *, tty_stdin_close)

#endif
