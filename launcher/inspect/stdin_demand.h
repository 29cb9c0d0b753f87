/* stdin_demand - tells if a rank waits for its stdin, so that text that no rank reads stays in the
 * terminal for the shell. */
#ifndef DROVER_STDIN_DEMAND_H
#define DROVER_STDIN_DEMAND_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns true if a thread of the rank's process tree reads the pipe with this inode number, or
 * waits until it is readable; also if the pipe is non-blocking, so that no thread waits for it, or
 * if that cannot be known. */
bool stdin_demand(pid_t rank, ino_t pipe);

#endif
