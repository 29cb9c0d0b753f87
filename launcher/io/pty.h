/* pty - a pseudo-terminal for the output of a rank: bytes pass through it unchanged.
 *
 * C, C++ and Fortran write a line at once to a terminal, but a pipe only gets full buffers. So a
 * log is live, and the last lines before an abort() or SIGKILL are not lost. */
#ifndef DROVER_PTY_H
#define DROVER_PTY_H

/* Opens both ends, close-on-exec: `*master` is read without blocking and reports EIO after the last
 * close of `*slave`, which becomes no process's controlling terminal. Returns 0, or -errno, for
 * example -ENOSPC if all ptys are in use, or -ENOENT in a container without them. */
int pty_open(int *master, int *slave);

#endif
