/* process_tree - finds the descendants of a process in /proc, and kills them.
 *
 * A scan is out of date when it is complete. So the caller kills the processes that the scan shows,
 * and scans again until none is left. The next scan shows processes that were forked during a scan,
 * since orphans become children of the subreaper above them. A process is identified by its pid and
 * start time together, so that a reused pid is never hit. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/mem.h"

struct process_tree_proc {
    pid_t pid, parent, group, session;
    uint64_t start; /* clock ticks since boot */
    char state;     /* as in /proc/PID/stat: 'Z' is dead */
    unsigned flags; /* PF_… of the kernel's sched.h */
    bool marked;
};

/* Reads one process. Returns -ESRCH if the process does not exist, or another -errno if that is not
 * known. */
int process_tree_read(struct process_tree_proc *out, pid_t pid);

/* Returns true if the process is this process or one of its ancestors. */
bool process_tree_is_ancestor(pid_t pid);

/* Returns true if the process is this process or one of its descendants. */
bool process_tree_is_descendant(pid_t pid);

/* Returns true if the process is dead or dying, even if its parent does not know it yet. */
bool process_tree_is_dead(pid_t pid);

/* Returns the clock ticks since boot. A process that is started later never has a smaller
 * `start`. */
uint64_t process_tree_clock(void);

/* Reads a variable of the environment that the process was started with; the caller frees `*value`.
 * `*value` is NULL if the variable is not set, if the process is dead, or if it may not be read.
 * Returns -EAGAIN if the environment is not known yet, since a process shows none during
 * execve(2). */
int process_tree_env(char **value, pid_t pid, const char *name);

/* Lists the children of this process. This process must have only one thread, and must not reap a
 * child during the call. Returns their number, or -errno; the caller frees `*out`. */
int process_tree_children(pid_t **out);

/* All processes, sorted by pid. */
struct process_tree {
    struct process_tree_proc *all;
    size_t count;
};
/* Reads all processes. */
int process_tree_scan(struct process_tree *out);
void process_tree_free(struct process_tree *w);

/* Returns the process with this pid; NULL: the scan has none. */
struct process_tree_proc *process_tree_find(const struct process_tree *w, pid_t pid);
/* Returns true if the scan has this process, and not only another process with the same pid. */
bool process_tree_has(const struct process_tree *w, const struct process_tree_proc *one);
/* Marks all descendants of marked processes. */
void process_tree_select_below(struct process_tree *w);
/* Kills every marked process and its process group, but never this process's group. */
void process_tree_kill_selected(const struct process_tree *w);
/* Removes the processes that are not marked. */
void process_tree_keep_selected(struct process_tree *w);
