/* stdin_demand - finds out if a rank waits for its stdin. Text that no rank reads can then be left
 * in the terminal for the shell. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Returns true if a thread of the rank's process tree reads the pipe with this inode number, or
 * waits until the pipe is readable. Also returns true if the pipe is non-blocking, since no thread
 * then waits for it, or if the threads cannot be examined. */
bool stdin_demand(pid_t rank, ino_t pipe);
