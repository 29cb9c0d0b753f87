/* guardian - the small process that is the parent of local ranks and ends them if drover dies.
 *
 * It is forked before this process has a thread. It is a subreaper without a terminal: it forks,
 * binds and execs ranks on request, waits for them, and reports every exit. When its lifeline
 * closes (the launcher ended, for whatever reason), it kills all its descendants, in new sessions
 * or not, and exits. If the guardian itself is killed, its ranks die with it (PR_SET_PDEATHSIG),
 * and its parent, the monitor, kills what is left of them; the monitor is a subreaper that waits
 * for nothing else. If both are killed at the same time, the launcher does. Only killing all three
 * at once may leave processes that ranks have started. */
#ifndef DROVER_GUARDIAN_H
#define DROVER_GUARDIAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

struct guardian;

/* Forks the guardian and its monitor, and makes this process a subreaper, too. Call it first in
 * main: before any thread or loop. */
int guardian_start(struct guardian **out, struct err *e);
/* The same without a monitor, for a process whose parent is a subreaper that cleans up. */
int guardian_start_unmonitored(struct guardian **out, struct err *e);
/* Closes the lifeline without waiting for the guardian's exit. Not while it is attached to a loop
 * that still runs; only guardian_stop() may follow. */
void guardian_shutdown(struct guardian *g);
/* Closes the lifeline, waits until the guardian has killed its descendants and exited, and frees
 * `g`. Waits 10 s at most, for a process that SIGKILL does not end. Not from an event. */
void guardian_stop(struct guardian *g);
AUTO_DEFINE(guardian, struct guardian *, guardian_stop)
/* Returns our child: the monitor, or a guardian without one. */
pid_t guardian_monitor_pid(const struct guardian *g);
/* Whether the process is a guardian, of any drover, by its name. */
bool guardian_is(pid_t pid);

/* Events of the guardian, from the loop. `job` is the caller's number for a job. */
struct guardian_events {
    void (*started)(void *arg, uint32_t job, int rank, pid_t pid);
    /* `step` is "chdir", "cgroup", "bind", "exec", "fork"; `error` a positive errno. No `exited`
     * follows. */
    void (*not_started)(void *arg, uint32_t job, int rank, int error, const char *step);
    /* `wait_status` is waitpid()'s. Children of the rank may still run and hold its output open.
     * `reaped`: no process of the job is left, so that guardian_kill_tree() need not be called. */
    void (*exited)(void *arg, uint32_t job, int rank, int wait_status, bool reaped);
    /* The answer to guardian_kill_tree(): no process of the job is left. */
    void (*reaped)(void *arg, uint32_t job);
    /* The guardian died without a request. All its descendants have been killed; every rank that
     * had not exited is dead. No further event follows. (If the monitor was killed, too, a daemon
     * that has left our session and dropped its environment cannot be distinguished from our own
     * children, and stays.) */
    void (*died)(void *arg);
};

/* Emits the guardian's events from `loop`. One loop at a time. */
int guardian_attach(struct guardian *g, uv_loop_t *loop, const struct guardian_events *ev,
                    void *arg, struct err *e);
/* Ends that. Nothing stays active on the loop; the handles close on its next turn. */
void guardian_detach(struct guardian *g);

enum { GUARDIAN_REPORT_FD = 3, GUARDIAN_PMI_FD, GUARDIAN_RANK_FDS };

/* What the guardian needs to start a rank. Everything is copied; the descriptors are duplicated
 * into the guardian, and the caller closes its own. */
struct guardian_rank {
    int rank;
    char *const *argv;
    char *const
        *env; /* complete; its DROVER_JOB_ID marks the processes that the rank leaves behind */
    const char *wdir;
    const char *cpus;   /* hwloc list; NULL: the guardian's binding */
    const char *mems;   /* NUMA nodes (MPOL_BIND); NULL: not bound */
    const char *cgroup; /* directory of a control group; NULL: the guardian's */
    int fds[3];         /* stdin, stdout, stderr */
    int report_fd;      /* becomes GUARDIAN_REPORT_FD; -1: none */
    int pmi_fd;         /* becomes GUARDIAN_PMI_FD; -1: none */
};

/* Requests a rank; `started` or `not_started` follows. The rank gets its own process group, default
 * signal handlers, and no blocked signal. argv[0] is searched in the rank's own PATH. Never blocks:
 * the request is queued if the socket is full. */
int guardian_spawn(struct guardian *g, uint32_t job, const struct guardian_rank *r, struct err *e);
/* Sends a signal to the rank's process group; rank -1: to the groups of all ranks of the job. */
void guardian_signal(struct guardian *g, uint32_t job, int rank, int sig);
/* Kills all processes of the job: its ranks and their descendants, in new sessions or not; orphans
 * whose environment has the job's DROVER_JOB_ID, or whose process group or session a rank of the
 * job has led. An orphan of unknown origin is killed with the last of the jobs that existed when it
 * was started. `reaped` follows. */
void guardian_kill_tree(struct guardian *g, uint32_t job);

#endif
