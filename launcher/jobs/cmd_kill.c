/* cmd_kill - `drover kill JOB`: stops a job, or sends it a signal. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>

#include "common/clock.h"
#include "common/command.h"
#include "common/log.h"
#include "common/wait_line.h"
#include "launcher/jobs/commands.h"
#include "launcher/jobs/registry.h"

enum { TICK_MS = 500 };

struct kill_opts {
    const char *signal;
    double wait_s;
};

static const struct opt options[] = {
    OPT_STR('s', "signal", "NAME", "signal to send, by name or number (default: TERM)",
            struct kill_opts, signal),
    OPT_DURATION(0, "wait", "DURATION", "time to wait for the job to end (default: 60)",
                 struct kill_opts, wait_s, 0, 1000000),
    OPT_END,
};

/* Returns the number of a signal such as "TERM", "SIGTERM", "term" or "15", or a negative errno if
 * it is unknown. */
static int read_signal(const char *text, struct err *e)
{
    int sig = 0;
    if (text[0] >= '0' && text[0] <= '9')
        return opt_int(&sig, "--signal", text, 1, SIGRTMAX, e) < 0 ? e->code : sig;
    const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
    for (sig = 1; sig < SIGRTMIN; sig++)
        if (sigabbrev_np(sig) && strcasecmp(sigabbrev_np(sig), name) == 0)
            return sig;
    err_set(e, -EINVAL, "unknown signal '%s'", text);
    return err_hint(e, "TERM, INT, KILL, USR1, …, or a number");
}

/* Returns true if the signal stops a job. `drover run` forwards other signals to the ranks, and the
 * job continues. */
static bool stops_jobs(int sig)
{
    return sig == SIGTERM || sig == SIGINT || sig == SIGHUP || sig == SIGQUIT || sig == SIGKILL;
}

/* Waits until the process has exited. Returns 0, or -ETIMEDOUT. */
static int await_end(int pidfd, const struct registry_job *j, double wait_s, struct err *e)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    struct wait_line wait;
    int64_t now = clock_ms(), end = now + (int64_t)(wait_s * 1000);
    wait_line_begin(&wait, now);
    do {
        int64_t left = end - now;
        if (poll(&p, 1, (int)(left < TICK_MS ? left : TICK_MS)) > 0) {
            log_status(NULL);
            return 0;
        }
        now = clock_ms();
        if (wait_line_due(&wait, now))
            wait_line_say(&wait, now, "job %s has not ended; its ranks may save", j->id);
    } while (now < end);
    err_set(e, -ETIMEDOUT, "job %s has not ended in %g s; its ranks may use their grace period",
            j->id, wait_s);
    return err_hint(e, "drover kill --signal KILL %s", j->id);
}

/* Sends a signal to a job, and waits if the signal stops it. Opens a pidfd before it checks the
 * process, so that the signal cannot reach another process that has got the same number. */
static int signal_job(const struct registry_job *j, int sig, double wait_s, struct err *e)
{
    AUTO(fd) int fd = (int)syscall(SYS_pidfd_open, j->pid, 0);
    if (fd < 0 && errno != ESRCH)
        return err_set(e, -errno, "job %s: its process %d: %s", j->id, (int)j->pid,
                       strerror(errno));
    if (fd < 0 || !registry_is_alive(j))
        return 0; /* the job has already ended */
    if (syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) < 0 && errno != ESRCH)
        return err_set(e, -errno, "job %s: cannot signal its process %d: %s", j->id, (int)j->pid,
                       strerror(errno));
    return stops_jobs(sig) ? await_end(fd, j, wait_s, e) : 0;
}

/* A trial has no drover of its own: its worker runs others, too. A sweep's coordinator has no ranks
 * to forward a signal to. */
static int check_kind(const struct registry_job *j, int sig, struct err *e)
{
    if (j->kind == REGISTRY_TRIAL) {
        err_set(e, -EINVAL, "job %s: it is a trial of the sweep '%s'", j->id, j->sweep);
        AUTO(free) char *stop = registry_sweep_command(j, "drover sweep stop");
        return err_hint(e, "%s %d", stop, j->trial);
    }
    if (j->kind == REGISTRY_SWEEP && !stops_jobs(sig))
        return err_set(e, -EINVAL, "job %s: a sweep accepts only signals that stop it", j->id);
    return 0;
}

static int find_and_signal(const char *name, int sig, double wait_s, struct err *e)
{
    struct registry_list l;
    const struct registry_job *j = NULL;
    registry_read(&l);
    int rc = registry_find(&j, &l, name, e);
    if (rc == 0)
        rc = check_kind(j, sig, e);
    if (rc == 0 && signal_job(j, sig, wait_s, e) < 0)
        rc = EXIT_STATUS_FAILED;
    registry_end(&l);
    return rc;
}

static int run(char **words, void *into, struct err *e)
{
    const struct kill_opts *o = into;
    int sig = read_signal(o->signal, e);
    return sig < 0 ? sig : find_and_signal(words[0], sig, o->wait_s, e);
}

int cmd_kill(int argc, char **argv)
{
    static const char hint[] = "drover kill JOB; 'drover ps' lists the jobs";
    static const struct command command = {
        .help = {.program = "drover kill",
                 .usage = "[options] JOB",
                 .summary =
                     "Stops a job of this node and waits until it has ended. JOB is a name that "
                     "'drover ps' lists, or the beginning of it. Signals that do not stop a job, "
                     "such as USR1, are forwarded to its ranks. The running trials of a sweep "
                     "that is stopped run again when it is resumed.",
                 .examples = "drover kill 4711\ndrover kill --signal USR1 4711"},
        .options = options,
        .words_min = 1,
        .words_max = 1,
        .missing = "the job is missing",
        .missing_hint = hint,
        .unexpected_hint = hint,
        .run = run};
    struct kill_opts o = {.signal = "TERM", .wait_s = 60};
    return command_run(&command, &o, argc, argv);
}
