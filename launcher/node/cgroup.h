/* cgroup - the cgroups of this process (version 1 or 2): their directories, and their limits of
 * CPU time, memory and processes; and groups of jobs inside a group that is delegated to this
 * process. `root` is a prefix of /proc and /sys: "" except in tests. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"

/* Returns the directory of this process's cgroup for a controller ("cpu", "memory"), or NULL if the
 * kernel does not report one. This is a cgroup of version 1 if version 1 has the controller, else
 * of version 2. The caller frees the path. In a container the path is often that on the host; the
 * directory itself may then be missing, and only directories above it exist. */
char *cgroup_dir(const char *root, const char *controller);

/* Returns that directory and those above it up to the root cgroup, nearest first (a strv); NULL as
 * above. The caller frees it. */
char **cgroup_dirs(const char *root, const char *controller);

/* Returns the limit of CPU time in CPUs, rounded up; 0: no limit. This is the smallest limit of
 * this process's cgroup and of those above it (cpu.max; cpu.cfs_quota_us divided by
 * cpu.cfs_period_us). */
int cgroup_cpus(const char *root);

/* Returns the limit of main memory in bytes; 0: no limit. This is the smallest one, as above
 * (memory.max; memory.limit_in_bytes). */
int64_t cgroup_memory(const char *root);

/* Returns the limit on processes and threads; 0: no limit. This is the smallest one, as above
 * (pids.max). */
int64_t cgroup_pids(const char *root);

/* Opens the number of processes of the memory cgroup `dir` that the kernel has killed to free
 * memory. Returns a descriptor, which the caller closes, or -1 if `dir` is NULL or the kernel does
 * not count. */
int cgroup_oom_open(const char *dir);

/* Returns the count of the cgroup and those below it; -1: unknown. The count grows with each OOM
 * kill. So two values show if a SIGKILL between them was an OOM kill. */
long cgroup_oom_count(int counter);

/* ---- groups of jobs ------------------------------------------------------------------------- */

/* A group of version 2 contains either processes, or groups with limits (the kernel's "no internal
 * processes" rule). A process that creates groups must therefore first move the processes of its
 * own group into one of them. That requires a group that was delegated with all its processes
 * (systemd: Delegate=yes). Source: the kernel's cgroup-v2.rst, "Delegation" and "Memory Interface
 * Files". */

/* Prepares this process's group for job groups. `*home` is the directory in which to create them;
 * the caller frees it. Moves the group's processes into a group below; `may_move` must accept each
 * of them. Removes empty groups that an earlier process has left.
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
