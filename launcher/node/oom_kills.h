/* oom_kills - number of processes of a memory cgroup that the kernel has killed to free memory. */
#ifndef DROVER_OOM_KILLS_H
#define DROVER_OOM_KILLS_H

/* Opens the counter of the cgroup with this directory (NULL: no cgroup). Returns a descriptor,
 * which the caller closes; -1: the kernel does not count. */
int oom_kills_open(const char *dir);

/* Returns the count of the group and those below it; -1: unknown. The count grows with each OOM
 * kill, so two values show whether a SIGKILL in between was one. */
long oom_kills_count(int counter);

#endif
