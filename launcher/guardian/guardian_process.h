/* guardian_process_run - the guardian's own process, one thread, one loop, and the keeper, its
 * parent. */
#ifndef DROVER_GUARDIAN_PROCESS_H
#define DROVER_GUARDIAN_PROCESS_H

#include <stdbool.h>

#define GUARDIAN_NAME "drover-guardian" /* what ps shows; 15 characters at most */

/* Runs in the process that guardian_start() has forked, which becomes the keeper, or where none is
 * wanted the guardian, and ends it.
 * `lifeline` is the socket to the launcher; no other descriptor of the launcher's stays open. */
_Noreturn void guardian_process_run(int lifeline, bool kept);

#endif
