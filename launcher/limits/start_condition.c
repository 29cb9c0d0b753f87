#include "launcher/limits/start_condition.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 }; /* exit status of the shell */

static const double PAUSE_MIN_S = 1;

/* Blocks SIGCHLD and the signals that end the wait, so that sigtimedwait() takes them. A signal
 * that is ignored (nohup) stays ignored. */
static void block_signals(sigset_t *blocked, sigset_t *before)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    (void)signal(SIGCHLD, SIG_DFL);
    sigemptyset(blocked);
    sigaddset(blocked, SIGCHLD);
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        struct sigaction a;
        if (sigaction(ends[i], NULL, &a) == 0 && a.sa_handler != SIG_IGN)
            sigaddset(blocked, ends[i]);
    }
    sigprocmask(SIG_BLOCK, blocked, before);
}

/* The command: a process group of its own, so that all of it can be ended, without input and
 * output. */
static void exec_command(const char *command, const sigset_t *mask)
{
    int null = open("/dev/null", O_RDWR);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
        dup2(null, fd);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(NOT_FOUND);
}

/* Returns the next signal of the set; 0: the time is over, or this process was only continued. */
static int next_signal(const sigset_t *set, double timeout_s)
{
    double whole = floor(fmin(timeout_s, 1e9));
    struct timespec t = {(time_t)whole, (long)((fmin(timeout_s, 1e9) - whole) * 1e9)};
    int sig = sigtimedwait(set, NULL, &t);
    return sig < 0 ? 0 : sig;
}

/* The seconds that the wait may still take. */
static double remaining_s(const struct start_condition *c)
{
    const struct job_limits only = {.deadline_s = c->limits->deadline_s};
    const struct job_limits_usage u = {.now_s = (double)clock_ms_of(CLOCK_REALTIME) / 1000};
    enum job_limit limit;
    return job_limits_next_s(&only, &u, &limit);
}

/* Waits for `duration_s`, or (INFINITY) for the end of process `pid`, whose wait status becomes
 * `*status`. Returns 0, or the signal that ends the wait, or -ETIMEDOUT at the deadline. */
static int await(const struct start_condition *c, const sigset_t *set, double duration_s, pid_t pid,
                 int *status)
{
    double until_s = clock_s() + duration_s;
    for (;;) {
        double left_s = until_s - clock_s(), deadline_s = remaining_s(c);
        if (pid > 0 && waitpid(pid, status, WNOHANG) == pid)
            return 0;
        if (left_s <= 0)
            return 0;
        if (deadline_s <= 0)
            return -ETIMEDOUT;
        int sig = next_signal(set, fmin(left_s, deadline_s));
        if (sig && sig != SIGCHLD)
            return sig;
    }
}

/* Runs the command once. Returns as await(). */
static int run_once(const struct start_condition *c, const sigset_t *set, const sigset_t *before,
                    int *status)
{
    pid_t pid = fork();
    if (pid == 0)
        exec_command(c->command, before);
    if (pid < 0)
        return -errno;
    setpgid(pid, pid); /* as the child does: whichever is first */
    int rc = await(c, set, INFINITY, pid, status);
    if (rc != 0) {
        kill(-pid, SIGKILL);
        (void)waitpid(pid, status, 0);
    }
    return rc;
}

static int explain_failure(const struct start_condition *c, int exited, struct err *e)
{
    err_set(e, exited == NOT_FOUND ? -ENOENT : -EACCES, "--start-when '%s': the shell cannot %s",
            c->command, exited == NOT_FOUND ? "find the command" : "execute the command");
    return err_hint(e, "sh -c '%s'", c->command);
}

/* Returns 0 when the command has succeeded; otherwise as await(), or an error. */
static int poll_command(const struct start_condition *c, const sigset_t *set,
                        const sigset_t *before, struct err *e)
{
    double pause_s = fmin(PAUSE_MIN_S, c->pause_max_s);
    for (bool first = true;; first = false) {
        int status = 0, rc = run_once(c, set, before, &status);
        if (rc != 0)
            return rc;
        int exited = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (exited == 0)
            return 0;
        if (exited == NOT_FOUND || exited == NOT_EXECUTABLE)
            return explain_failure(c, exited, e);
        if (first && !c->quiet)
            fprintf(stderr, "%s: waiting until '%s' succeeds; its status is %d now\n", c->program,
                    c->command, exited);
        rc = await(c, set, pause_s, 0, &status);
        if (rc != 0)
            return rc;
        pause_s = fmin(pause_s * 2, c->pause_max_s);
    }
}

int start_condition_wait(const struct start_condition *c, struct err *e)
{
    sigset_t set, before;
    block_signals(&set, &before);
    int rc = poll_command(c, &set, &before, e);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (rc == -ETIMEDOUT) {
        fprintf(stderr,
                "%s: the job was not started: '%s' had not succeeded at the deadline (%s)\n",
                c->program, c->command, c->limits->deadline_text);
        return JOB_LIMITS_STATUS;
    }
    if (rc < 0 && e->code == 0)
        return err_set(e, rc, "--start-when '%s': %s", c->command, strerror(-rc));
    return rc > 0 ? 128 + rc : rc;
}
