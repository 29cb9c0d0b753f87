/* guardian_process - the processes of the guardian, which has one thread and one loop, and of its
 * parent, the monitor. */
#ifndef DROVER_GUARDIAN_PROCESS_H
#define DROVER_GUARDIAN_PROCESS_H

#include <stdbool.h>

#define GUARDIAN_NAME "drover-guardian" /* name in the output of ps; 15 characters at most */

/* Runs the guardian in the process that guardian_start() has forked, and ends the process. If
 * `monitored`, this process becomes the monitor and forks the guardian. `lifeline` is the socket to
 * the launcher; no other descriptor of the launcher stays open. */
_Noreturn void guardian_process_run(int lifeline, bool monitored);

#endif
