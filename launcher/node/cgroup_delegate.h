/* cgroup_own - control groups (version 2) that are ours to make: one for each job, with limits.
 *
 * A group has either processes or groups below it with limits (the kernel's "no internal processes"
 * rule), so whoever makes groups first moves what is in its own group into one of them. That needs
 * a group that was handed to us with all that is in it (systemd: Delegate=yes). Source: the
 * kernel's cgroup-v2.rst, "Delegation" and "Memory Interface Files". */
#ifndef DROVER_CGROUP_DELEGATE_H
#define DROVER_CGROUP_DELEGATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/* Takes our group for ourselves: `*home`, to be freed, is a directory to make groups in. What is in
 * it, and `mine` says of every process there that it may be moved, goes to a group below. Groups
 * that an earlier one left empty are removed. `root` stands before /proc and /sys: "" as usual.
 *   -ENOTSUP  there is none for us: the text says why. Nothing was changed, but that processes may
 *             have been moved */
int cgroup_delegate_claim(char **home, const char *root, bool (*mine)(pid_t pid), struct err *e);

struct cgroup_delegate_limits {
    int64_t memory_bytes; /* and no swap; whoever passes it is killed, with all of its group; 0:
                             none */
    int cpus;             /* so many CPUs' time; 0: all. As far as the group has the controller */
};

/* Makes home/NAME; `*dir` is to be freed.
 *   -errno  as mkdir() and write() say; nothing is left */
int cgroup_delegate_make(char **dir, const char *home, const char *name,
                         const struct cgroup_delegate_limits *l, struct err *e);
/* Nothing where processes are in it, or `dir` is NULL. */
void cgroup_delegate_remove(const char *dir);

#endif
