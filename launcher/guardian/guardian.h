/* guardian - the small process that is the parent of local ranks and ends them if drover dies.
 *
 * The guardian is forked before this process has a second thread. It is a subreaper without a
 * terminal. On request it forks, binds and execs ranks; it waits for them and reports every exit.
 * When its lifeline closes, because the launcher has ended in any way, the guardian kills all its
 * descendants, in any session, and exits.
 *
 * If the guardian itself is killed, its ranks die with it (PR_SET_PDEATHSIG). The guardian's
 * parent, the monitor, then kills the processes that the ranks have left. The monitor is a
 * subreaper that does nothing else. If guardian and monitor are killed at the same time, the
 * launcher kills these processes. Only if all three are killed at the same time, processes that
 * ranks have started may survive. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

struct guardian;

/* Forks the guardian and its monitor, and makes this process a subreaper, too. Call this first in
 * main, before there is a thread or a loop. */
int guardian_start(struct guardian **out, struct err *e);
/* Does the same. The guardian and its monitor keep copies of `count` descriptors, for locks that
 * must last until no rank is left. */
int guardian_start_keeping(struct guardian **out, const int *fds, int count, struct err *e);
/* Does the same as guardian_start() without a monitor, for a process whose parent is a subreaper
 * that cleans up. */
int guardian_start_unmonitored(struct guardian **out, struct err *e);
/* Closes the lifeline without waiting for the guardian's exit. Do not call this while the guardian
 * is attached to a running loop. Only guardian_stop() may follow. */
void guardian_shutdown(struct guardian *g);
/* Closes the lifeline, waits until the guardian has killed its descendants and exited, and frees
 * `g`. If SIGKILL does not end a process, waits at most 10 s. Do not call this from an event. */
void guardian_stop(struct guardian *g);
AUTO_DEFINE(guardian, struct guardian *, guardian_stop)
/* Returns the child of this process: the monitor, or a guardian without a monitor. */
pid_t guardian_monitor_pid(const struct guardian *g);
/* Returns true if the process's name is that of a guardian, of any drover process. */
bool guardian_is(pid_t pid);

/* Events of the guardian, emitted from the loop. `job` is the number that the caller has given to
 * the job. */
struct guardian_events {
    void (*started)(void *arg, uint32_t job, int rank, pid_t pid);
    /* The rank could not be started; no `exited` follows. `step` is the step that failed: "chdir",
     * "cgroup", "bind", "exec" or "fork". `error` is a positive errno. */
    void (*not_started)(void *arg, uint32_t job, int rank, int error, const char *step);
    /* `wait_status` is the status of waitpid(). Children of the rank may still run and hold its
     * output open. If `reaped` is true, no process of the job is left, and guardian_kill_tree()
     * need not be called. */
    void (*exited)(void *arg, uint32_t job, int rank, int wait_status, bool reaped);
    /* The answer to guardian_kill_tree(): no process of the job is left. */
    void (*reaped)(void *arg, uint32_t job);
    /* The guardian died without a request. All its descendants have been killed, so every rank is
     * dead. No further event follows. If the monitor was killed, too, one kind of process stays: a
     * daemon that has left the session and dropped its environment cannot be distinguished from
     * this process's own children. */
    void (*died)(void *arg);
};

/* Emits the guardian's events from `loop`. One loop at a time. The first call waits until the
 * guardian runs, and returns the error of a guardian that could not be started. */
int guardian_attach(struct guardian *g, uv_loop_t *loop, const struct guardian_events *ev,
                    void *arg, struct err *e);
/* Detaches the guardian from the loop. Nothing stays active on the loop; the handles close on its
 * next turn. */
void guardian_detach(struct guardian *g);

enum { GUARDIAN_REPORT_FD = 3, GUARDIAN_PMI_FD, GUARDIAN_RANK_FDS };

/* What the guardian needs to start a rank. Everything is copied; the descriptors are duplicated
 * into the guardian, and the caller closes its own. */
struct guardian_rank {
    int rank;
    char *const *argv;
    char *const *env; /* complete; DROVER_JOB_ID marks the processes that the rank leaves behind */
    const char *wdir;
    const char *cpus;   /* hwloc list; NULL: the guardian's binding */
    const char *mems;   /* NUMA nodes (MPOL_BIND); NULL: not bound */
    const char *cgroup; /* directory of a cgroup; NULL: the guardian's cgroup */
    int fds[3];         /* stdin, stdout, stderr */
    int report_fd;      /* becomes GUARDIAN_REPORT_FD; -1: none */
    int pmi_fd;         /* becomes GUARDIAN_PMI_FD; -1: none */
};

/* Asks the guardian to start a rank; `started` or `not_started` follows. The rank gets its own
 * process group, default signal handlers, and no blocked signal. argv[0] is searched in the rank's
 * own PATH. Never blocks: the request is queued if the socket is full. */
int guardian_spawn(struct guardian *g, uint32_t job, const struct guardian_rank *r, struct err *e);
/* Sends a signal to the rank's process group; rank -1: to the groups of all ranks of the job. */
void guardian_signal(struct guardian *g, uint32_t job, int rank, int sig);
/* Kills all processes of the job; `reaped` follows. These are its ranks and their descendants in
 * any session, orphans that have the job's DROVER_JOB_ID in their environment, and orphans in a
 * process group or session that a rank of the job has led. An orphan of unknown origin is killed
 * with the last of the jobs that existed when it was started. */
void guardian_kill_tree(struct guardian *g, uint32_t job);
