/* cgroup - this process's control groups, of version 1 or 2: where they lie, and how much CPU time
 * and memory they leave it. `root` stands before /proc and /sys: "" as usual. */
#ifndef DROVER_CGROUP_H
#define DROVER_CGROUP_H

#include <stdint.h>

/* The directory of the group that has us under a controller ("cpu", "memory"), to be freed: of
 * version 1 where that has the controller, else of version 2. NULL where the kernel does not say.
 * In a container the path is often told as from outside; then only what lies above it is there. */
char *cgroup_dir(const char *root, const char *controller);

/* CPUs' worth of time, rounded up: the smallest limit of our group and of those above it (cpu.max;
 * cpu.cfs_quota_us over cpu.cfs_period_us). 0: no limit. */
int cgroup_cpus(const char *root);

/* Bytes of main memory, in the same way (memory.max; memory.limit_in_bytes). 0: no limit. */
int64_t cgroup_memory(const char *root);

#endif
