/* oom_kills - number of processes of a memory cgroup that the kernel has killed to free memory. */
#pragma once

/* Opens the counter of the cgroup with the directory `dir`. Returns a descriptor, which the caller
 * closes, or -1 if `dir` is NULL or the kernel does not count. */
int oom_kills_open(const char *dir);

/* Returns the count of the cgroup and those below it; -1: unknown. The count grows with each OOM
 * kill. So two values show if a SIGKILL between them was an OOM kill. */
long oom_kills_count(int counter);
