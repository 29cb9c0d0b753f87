/* cgroup - the cgroups of this process (version 1 or 2): their directories, and their limits of
 * CPU time, memory and processes. `root` is a prefix of /proc and /sys: "" except in tests. */
#ifndef DROVER_CGROUP_H
#define DROVER_CGROUP_H

#include <stdint.h>

/* Returns the directory of this process's cgroup for a controller ("cpu", "memory"): of version 1
 * if that has the controller, else of version 2. The caller frees it. NULL: the kernel does not
 * report one. In a container the path is often relative to the host; then only the groups above it
 * exist. */
char *cgroup_dir(const char *root, const char *controller);

/* Returns the limit of CPU time in CPUs, rounded up: the smallest one of this process's group and
 * of the groups above it (cpu.max; cpu.cfs_quota_us over cpu.cfs_period_us). 0: no limit. */
int cgroup_cpus(const char *root);

/* Returns the limit of main memory in bytes, in the same way (memory.max; memory.limit_in_bytes).
 * 0: no limit. */
int64_t cgroup_memory(const char *root);

/* Returns the limit on processes and threads, in the same way (pids.max). 0: no limit. */
int64_t cgroup_pids(const char *root);

#endif
