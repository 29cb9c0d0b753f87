/* oom - how often the kernel has ended a process of a memory cgroup to free memory. */
#ifndef DROVER_OOM_KILLS_H
#define DROVER_OOM_KILLS_H

/* The counter of the group with this directory (NULL: of none), a descriptor to be closed; -1 where
 * the kernel does not count. */
int oom_kills_open(const char *dir);

/* Its count so far, of the group and those below it; -1: it does not say. It grows when one of them
 * was killed, so two of them tell what a SIGKILL was. */
long oom_kills_count(int counter);

#endif
