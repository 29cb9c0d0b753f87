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

struct process_tree_proc {
    pid_t pid, parent, group, session;
    uint64_t start; /* clock ticks since boot */
    char state;     /* as in /proc/PID/stat: 'Z' has ended */
    bool marked;
};

/* One process. -ESRCH where it is not there (any more); another -errno where it cannot be told. */
int process_tree_read(struct process_tree_proc *out, pid_t pid);

/* Whether the kernel is ending it or has ended it, be it that its parent was not told so far. */
bool process_tree_is_dead(pid_t pid);

/* Clock ticks since boot, now: no process born later has a smaller `start`. */
uint64_t process_tree_clock(void);

/* A variable of the environment that the process was started with, to be freed; NULL where it has
 * none, or has ended, or may not be looked at. -EAGAIN where that cannot be told yet: it is just
 * being replaced by another program, and shows no environment at all meanwhile. */
int process_tree_env(char **value, pid_t pid, const char *name);

/* This process's children (it has one thread), each of them, as long as nobody reaps meanwhile.
 * Returns how many, or -errno; `*out` is to be freed. */
int process_tree_children(pid_t **out);

/* Every process, by pid. */
struct process_tree {
    struct process_tree_proc *all;
    size_t count;
};
int process_tree_scan(struct process_tree *out);
void process_tree_kill_all(struct process_tree *w);

/* NULL where the scan has it not. */
struct process_tree_proc *process_tree_find(const struct process_tree *w, pid_t pid);
/* Whether the scan has this very process, not another with its pid. */
bool process_tree_has(const struct process_tree *w, const struct process_tree_proc *one);
/* Marks all that descend from a marked one. */
void process_tree_select_below(struct process_tree *w);
/* SIGKILL to every marked process and to its process group, but never to this process's group. */
void process_tree_kill_selected(const struct process_tree *w);
/* Drops what is not marked. */
void process_tree_keep_selected(struct process_tree *w);

#endif
