/* cgroup_delegate - cgroups (version 2) inside a group that is delegated to this process: one per
 * job, with limits.
 *
 * A group contains either processes, or groups with limits (the kernel's "no internal processes"
 * rule). A process that creates groups must therefore first move the processes of its own group
 * into one of them. That requires a group that was delegated with all its processes (systemd:
 * Delegate=yes). Source: the kernel's cgroup-v2.rst, "Delegation" and "Memory Interface Files". */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/* Prepares this process's group for job groups. `*home` is the directory in which to create them;
 * the caller frees it. Moves the group's processes into a group below; `may_move` must accept each
 * of them. Removes empty groups that an earlier process has left. `root` is a prefix of /proc and
 * /sys: "" except in tests.
 *   -ENOTSUP  this process has no delegated group; the text has the reason. Processes may have been
 * moved; nothing else has changed */
int cgroup_delegate_claim(char **home, const char *root, bool (*may_move)(pid_t pid),
                          struct err *e);

struct cgroup_delegate_limits {
    int64_t memory_bytes; /* without swap; if the group exceeds it, the kernel kills all its
                             processes; 0: no limit */
    int cpus;             /* limit of CPU time in CPUs, if the group has the controller; 0: no
                             limit */
};

/* Creates home/NAME with limits. The caller frees `*dir`.
 *   -errno  mkdir() or write() failed; no group is left */
int cgroup_delegate_make(char **dir, const char *home, const char *name,
                         const struct cgroup_delegate_limits *l, struct err *e);
/* Removes a group. Does nothing if it contains processes or `dir` is NULL. */
void cgroup_delegate_remove(const char *dir);
