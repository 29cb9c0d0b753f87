/* process_tree - the descendants of a process: found in /proc, and killed.
 *
 * A scan is out of date when it is complete. Kill what it shows and scan again until nothing is
 * left: processes forked during a scan are found by the next one, since orphans become children of
 * the subreaper above them. A process is identified by its pid and start time together, so that a
 * reused pid is never hit. */
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
    char state;     /* as in /proc/PID/stat: 'Z' is dead */
    bool marked;
};

/* Reads one process. -ESRCH if it does not exist; another -errno if that is not known. */
int process_tree_read(struct process_tree_proc *out, pid_t pid);

/* Whether the process is dead or dying, even if its parent has not been informed yet. */
bool process_tree_is_dead(pid_t pid);

/* Returns the clock ticks since boot: no process started later has a smaller `start`. */
uint64_t process_tree_clock(void);

/* Reads a variable of the environment that the process was started with; the caller frees `*value`.
 * NULL: it is not set, or the process is dead or may not be read. Returns -EAGAIN if that is not
 * known yet: during execve(2) a process shows no environment. */
int process_tree_env(char **value, pid_t pid, const char *name);

/* Lists the children of this process, which has one thread and reaps none during the call. Returns
 * their number, or -errno; the caller frees `*out`. */
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
/* Whether the scan has this process, and not another one with its pid. */
bool process_tree_has(const struct process_tree *w, const struct process_tree_proc *one);
/* Marks all descendants of marked processes. */
void process_tree_select_below(struct process_tree *w);
/* Kills every marked process and its process group, but never this process's group. */
void process_tree_kill_selected(const struct process_tree *w);
/* Removes the processes that are not marked. */
void process_tree_keep_selected(struct process_tree *w);

#endif
