/* tty_stdin - passes input of the terminal to a rank through a pipe.
 *
 * A rank cannot read the terminal itself. The launcher reads nothing while it is a background job
 * of the shell, since reading would stop it. It also reads nothing while no rank waits for input,
 * so that text that the user types ahead is left for the shell. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

struct tty_stdin;

/* Opens the pipe. `*read_fd` is its read end; the caller passes it on and closes it. The loop calls
 * `wanted(arg)` when there is input; `wanted` returns true if the rank waits for input. */
int tty_stdin_open(struct tty_stdin **out, int *read_fd, uv_loop_t *loop, int tty_fd,
                   bool (*wanted)(void *arg), void *arg, struct err *e);
/* Closes the pipe. The handles close in the loop's next iteration. */
void tty_stdin_close(struct tty_stdin *f);
AUTO_DEFINE(tty_stdin, struct tty_stdin *, tty_stdin_close)
