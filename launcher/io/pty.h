/* pty - a pseudo-terminal for the output of a rank: bytes pass through it unchanged.
 *
 * Programs in C, C++ and Fortran write each line immediately to a terminal, but write to a pipe
 * only when a buffer is full. So with a pty the log is live, and the last lines before an abort()
 * or SIGKILL are not lost. */
#pragma once

/* Opens both ends, close-on-exec. Reads of `*master` do not block, and fail with EIO after the last
 * close of `*slave`. `*slave` never becomes a controlling terminal. Returns 0 or -errno, for
 * example -ENOSPC if all ptys are in use, or -ENOENT in a container without ptys. */
int pty_open(int *master, int *slave);
