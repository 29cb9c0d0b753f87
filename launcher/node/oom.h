/* oom - how often the kernel has ended a process of our memory cgroup to free memory. */
#ifndef DROVER_OOM_H
#define DROVER_OOM_H

/* The count so far, of this process's cgroup and those below it; -1 where the kernel does not say.
 * It grows when one of ours was killed, so two of them tell what a SIGKILL was. `root` stands
 * before /proc and /sys: "" as usual. */
long oom_kills(const char *root);
/* The same of the group with this directory. */
long oom_kills_in(const char *dir);

#endif
