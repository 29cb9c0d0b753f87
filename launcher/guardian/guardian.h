/* guardian - the small process that is parent of ranks and outlives nothing.
 *
 * Forked before this process has a thread. It is a subreaper without a terminal: it forks, binds
 * and execs ranks as it is told, waits for them, reports every exit, and when the lifeline closes
 * (its launcher ended, by whatever means) it kills all that descends from it, setsid or not, and
 * ends. Should the guardian itself be killed, its ranks die with it (PR_SET_PDEATHSIG) and its
 * parent, the keeper, a subreaper that waits for nothing else, ends what is left of them. Should
 * both be killed at the same instant, the launcher does. Only who kills all three at once may leave
 * what the ranks had started themselves. */
#ifndef DROVER_GUARDIAN_H
#define DROVER_GUARDIAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"

struct guardian;

/* Forks both and makes this process a subreaper too. Call first thing in main: no thread, no loop.
 */
int guardian_start(struct guardian **out, struct err *e);
/* The same without a keeper, where our parent is a subreaper and does that. */
int guardian_start_unmonitored(struct guardian **out, struct err *e);
/* Closes the lifeline and waits for nothing: what the guardian does at its end goes on meanwhile.
 * Not while it is attached to a loop that still turns; only guardian_stop() is to follow. */
void guardian_shutdown(struct guardian *g);
/* Closes the lifeline, waits for the guardian's end (it kills what is left first) and frees. Waits
 * 10 s at most, for a process that SIGKILL does not end. Not from inside an event. */
void guardian_stop(struct guardian *g);
AUTO_DEFINE(guardian, struct guardian *, guardian_stop)
/* The keeper, or the guardian that has none: our child. */
pid_t guardian_monitor_pid(const struct guardian *g);
/* Whether this process is a guardian, of whoever: by its name. */
bool guardian_is(pid_t pid);

/* What the guardian says, on the loop. `job` is the caller's number for a job. */
struct guardian_events {
    void (*started)(void *arg, uint32_t job, int rank, pid_t pid);
    /* `step` is "chdir", "cgroup", "bind", "exec", "fork"; `error` a positive errno. No `exited`
     * follows. */
    void (*not_started)(void *arg, uint32_t job, int rank, int error, const char *step);
    /* As waitpid() gives it. Its children may still run and hold its output open; `clear`: nothing
     * is left of the job, as after guardian_kill_tree(), which need not be called then. */
    void (*exited)(void *arg, uint32_t job, int rank, int wait_status, bool clear);
    /* The answer to guardian_kill_tree(): nothing of the job is left. */
    void (*cleared)(void *arg, uint32_t job);
    /* The guardian ended unasked. All that it had started has been killed; every rank that had not
     * exited is dead. No other event follows. (Where the keeper was killed too, a daemon that has
     * left our session and dropped its environment cannot be told from our own child, and stays.)
     */
    void (*gone)(void *arg);
};

/* Watches the guardian on `loop`. One watcher at a time. */
int guardian_attach(struct guardian *g, uv_loop_t *loop, const struct guardian_events *ev,
                    void *arg, struct err *e);
/* Leaves nothing active on the loop (its handles close on the next turn). */
void guardian_detach(struct guardian *g);

enum { GUARDIAN_REPORT_FD = 3, GUARDIAN_PMI_FD, GUARDIAN_RANK_FDS };

/* One rank, complete. Everything is borrowed and copied (the descriptors are duplicated into the
 * guardian; the caller closes its own). */
struct guardian_rank {
    int rank;
    char *const *argv;
    char *const
        *env; /* the whole environment; DROVER_JOB_ID in it marks what the rank leaves behind */
    const char *wdir;
    const char *cpus;   /* hwloc list; NULL: as the guardian is bound */
    const char *mems;   /* NUMA nodes (MPOL_BIND); NULL: not bound */
    const char *cgroup; /* a control group's directory; NULL: that of the guardian */
    int fds[3];         /* stdin, stdout, stderr */
    int report_fd;      /* -1: none. The child gets it as GUARDIAN_REPORT_FD */
    int pmi_fd;         /* -1: none. As GUARDIAN_PMI_FD */
};

/* Asks for a rank; `started` or `not_started` follows. In a process group of its own, default
 * signal handlers, nothing blocked. argv[0] is looked up in the rank's own PATH. Queued where the
 * socket is full: never blocks. */
int guardian_spawn(struct guardian *g, uint32_t job, const struct guardian_rank *r, struct err *e);
/* To the rank's process group; rank -1: to every rank's of the job. */
void guardian_signal(struct guardian *g, uint32_t job, int rank, int sig);
/* SIGKILL to everything that the job has or left: its ranks and their descendants, setsid or not;
 * orphans whose environment has the job's DROVER_JOB_ID or whose process group or session one of
 * its ranks has led; an orphan of which nothing tells goes with the last of the jobs that were
 * there when it was born. `cleared` follows when nothing is left. */
void guardian_kill_tree(struct guardian *g, uint32_t job);

#endif
