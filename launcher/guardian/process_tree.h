/* wards - the processes that descend from one: found in /proc, and killed.
 *
 * A scan is a picture that is out of date when it is done. Kill what it shows and scan again, until
 * nothing is left: who was born meanwhile is found the next time, since orphans come back to the
 * subreaper above them. A process is its pid and start time together, so a recycled pid is never
 * hit. */
#ifndef DROVER_PROCESS_TREE_H
#define DROVER_PROCESS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/mem.h"

struct ward {
    pid_t pid, parent, group, session;
    uint64_t start; /* clock ticks since boot */
    char state;     /* as in /proc/PID/stat: 'Z' has ended */
    bool marked;
};

/* One process. -ESRCH where it is not there (any more); another -errno where it cannot be told. */
int wards_read(struct ward *out, pid_t pid);

/* Whether the kernel is ending it or has ended it, be it that its parent was not told so far. */
bool wards_is_over(pid_t pid);

/* Clock ticks since boot, now: no process born later has a smaller `start`. */
uint64_t wards_now(void);

/* A variable of the environment that the process was started with, to be freed; NULL where it has
 * none, or has ended, or may not be looked at. -EAGAIN where that cannot be told yet: it is just
 * being replaced by another program, and shows no environment at all meanwhile. */
int wards_env(char **value, pid_t pid, const char *name);

/* This process's children (it has one thread), each of them, as long as nobody reaps meanwhile.
 * Returns how many, or -errno; `*out` is to be freed. */
int wards_children(pid_t **out);

/* Every process, by pid. */
struct wards {
    struct ward *all;
    size_t count;
};
int wards_scan(struct wards *out);
void wards_end(struct wards *w);

/* NULL where the scan has it not. */
struct ward *wards_find(const struct wards *w, pid_t pid);
/* Whether the scan has this very process, not another with its pid. */
bool wards_has(const struct wards *w, const struct ward *one);
/* Marks all that descend from a marked one. */
void wards_mark_below(struct wards *w);
/* SIGKILL to every marked process and to its process group, but never to this process's group. */
void wards_kill_marked(const struct wards *w);
/* Drops what is not marked. */
void wards_keep_marked(struct wards *w);

#endif
