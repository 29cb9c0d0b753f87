/* guardian_process - the processes of the guardian, which has one thread and one loop, and of its
 * parent, the monitor. */
#pragma once

#include <stdbool.h>

#define GUARDIAN_NAME "drover-guardian" /* name in the output of ps; 15 characters at most */

struct guardian_process_opts {
    int lifeline;    /* the socket to the launcher */
    bool monitored;  /* this process becomes the monitor and forks the guardian */
    const int *kept; /* further descriptors of the launcher that stay open in both */
    int kept_count;
};

/* Runs the guardian in the process that guardian_start() has forked, and ends the process. No other
 * descriptor of the launcher stays open. */
_Noreturn void guardian_process_run(const struct guardian_process_opts *o);
