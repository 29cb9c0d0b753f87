/* cgroup - the cgroups of this process (version 1 or 2): their directories, and their limits of
 * CPU time, memory and processes. `root` is a prefix of /proc and /sys: "" except in tests. */
#pragma once

#include <stdint.h>

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
