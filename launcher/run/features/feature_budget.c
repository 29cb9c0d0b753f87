/* feature_budget - implements --timeout, --deadline and --budget, which end a job, and
 * --start-when, which starts it. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "launcher/node/topo.h"
#include "launcher/plan/plan_hardware.h"
#include "launcher/run/features/feature.h"

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 }; /* exit status of the shell */

static const double PAUSE_MIN_S = 1; /* between two runs of the command of --start-when; doubles */

struct budget {
    FEATURE_STATE;
    enum job_limit reached;
    bool started; /* a rank of the attempt has started */
};

static int check(struct feature_settings *set, struct launch_spec *spec, struct err *e)
{
    int rc = job_clock_read_limits(&set->budget.limits, e);
    return rc < 0 ? rc : 1;
}

/* ---- the command of --start-when ------------------------------------------------------------ */

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

static double remaining_s(const struct feature_run *r)
{
    double deadline_s = r->set->budget.limits.deadline_s;
    return deadline_s > 0 ? deadline_s - (double)clock_ms_of(CLOCK_REALTIME) / 1000 : INFINITY;
}

/* Waits for `duration_s`, or (INFINITY) for the end of process `pid`, whose wait status becomes
 * `*status`. Returns 0, or the signal that ends the wait, or -ETIMEDOUT at the deadline. */
static int await(const struct feature_run *r, const sigset_t *set, double duration_s, pid_t pid,
                 int *status)
{
    double until_s = clock_s() + duration_s;
    for (;;) {
        double left_s = until_s - clock_s(), deadline_s = remaining_s(r);
        if ((pid > 0 && waitpid(pid, status, WNOHANG) == pid) || left_s <= 0)
            return 0;
        if (deadline_s <= 0)
            return -ETIMEDOUT;
        int sig = next_signal(set, fmin(left_s, deadline_s));
        if (sig && sig != SIGCHLD)
            return sig;
    }
}

/* Runs the command once. Returns as await(). */
static int run_once(const struct feature_run *r, const sigset_t *set, const sigset_t *before,
                    int *status)
{
    pid_t pid = fork();
    if (pid == 0)
        exec_command(r->set->budget.start_when, before);
    if (pid < 0)
        return -errno;
    setpgid(pid, pid); /* as the child does: whichever is first */
    int rc = await(r, set, INFINITY, pid, status);
    if (rc != 0) {
        kill(-pid, SIGKILL);
        (void)waitpid(pid, status, 0);
    }
    return rc;
}

static int explain_failure(const struct feature_run *r, int exited, struct err *e)
{
    err_set(e, exited == NOT_FOUND ? -ENOENT : -EACCES, "--start-when '%s': the shell cannot %s",
            r->set->budget.start_when,
            exited == NOT_FOUND ? "find the command" : "execute the command");
    return err_hint(e, "sh -c '%s'", r->set->budget.start_when);
}

/* Returns 0 when the command has succeeded; otherwise as await(), or an error. */
static int poll_command(const struct feature_run *r, const sigset_t *set, const sigset_t *before,
                        struct err *e)
{
    double pause_s = fmin(PAUSE_MIN_S, r->set->budget.start_when_pause_max_s);
    for (bool first = true;; first = false) {
        int status = 0, rc = run_once(r, set, before, &status);
        if (rc != 0)
            return rc;
        int exited = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        if (exited == 0)
            return 0;
        if (exited == NOT_FOUND || exited == NOT_EXECUTABLE)
            return explain_failure(r, exited, e);
        if (first && !r->quiet)
            fprintf(stderr, "%s: waiting until '%s' succeeds; its status is %d now\n", r->program,
                    r->set->budget.start_when, exited);
        rc = await(r, set, pause_s, 0, &status);
        if (rc != 0)
            return rc;
        pause_s = fmin(pause_s * 2, r->set->budget.start_when_pause_max_s);
    }
}

/* Waits until the command of --start-when succeeds. Sets `*status` if the wait has ended otherwise:
 * to 128 + N for signal N, or to JOB_LIMITS_STATUS if the deadline has passed.
 *   -ENOENT, -EACCES  the shell cannot run the command: a further run would not succeed */
static int await_start(int *status, const struct feature_run *r, struct err *e)
{
    sigset_t set, before;
    block_signals(&set, &before);
    int rc = poll_command(r, &set, &before, e);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (rc == -ETIMEDOUT) {
        fprintf(stderr,
                "%s: the job was not started: '%s' had not succeeded at the deadline (%s)\n",
                r->program, r->set->budget.start_when, r->set->budget.limits.deadline_text);
        *status = JOB_LIMITS_STATUS;
        return 0;
    }
    if (rc < 0 && e->code == 0)
        return err_set(e, rc, "--start-when '%s': %s", r->set->budget.start_when, strerror(-rc));
    *status = rc > 0 ? 128 + rc : 0;
    return rc < 0 ? rc : 0;
}

/* ---- before the job ------------------------------------------------------------------------- */

/* Refuses a budget of GPU hours for a job that uses no GPU. The GPUs of other nodes are not known
 * yet. */
static int check_gpus(const struct feature_run *r, struct err *e)
{
    AUTO(topo) struct topo *t = NULL;
    AUTO(plan) struct plan *p = NULL;
    const struct job_limits *l = &r->set->budget.limits;
    if (job_limits_budget_gpu_h(l) <= 0)
        return 0;
    if (topo_load(&t, e) < 0 || plan_make(&p, r->spec, t, environ, e) < 0)
        return e->code;
    if (!plan_is_local(p) || plan_hardware_gpus(p) > 0)
        return 0;
    err_set(e, -EINVAL, "--budget %s: the job uses no GPU", l->budget_text);
    return err_hint(e, "--timeout, which counts the time of any job");
}

static int admit(int *status, const struct feature_run *r, struct err *e)
{
    int rc = check_gpus(r, e);
    return rc < 0 || r->dry_run || !r->set->budget.start_when ? rc : await_start(status, r, e);
}

/* ---- the job -------------------------------------------------------------------------------- */

static void on_limit(void *arg, enum job_limit limit)
{
    struct budget *b = arg;
    b->reached = limit;
    feature_stop(b);
}

static int open_clock(void *state, struct err *e)
{
    struct budget *b = state;
    b->run->clock = job_clock_open(b->run->loop, &b->run->set->budget.limits, on_limit, b);
    return 0;
}

static int count_gpus(const struct budget *b)
{
    int gpus = plan_hardware_gpus(b->run->plan);
    job_clock_set_gpus(b->run->clock, gpus);
    return gpus;
}

static void attach(void *state)
{
    struct budget *b = state;
    b->started = false;
    (void)count_gpus(b);
}

/* The nodes of the job, and so its GPUs, are known when the first rank has started. */
static void on_rank_started(void *arg, int rank, pid_t pid)
{
    struct budget *b = arg;
    const struct job_limits *l = &b->run->set->budget.limits;
    if (b->started)
        return;
    b->started = true;
    if (count_gpus(b) == 0 && job_limits_budget_gpu_h(l) > 0)
        log_warn("--budget %s has no effect: the job uses no GPU", l->budget_text);
}

static void ended(void *state, const struct job_end *end, int status)
{
    job_clock_set_gpus(((const struct budget *)state)->run->clock, 0);
}

static void explain(void *state, struct strbuf *text)
{
    const struct budget *b = state;
    const struct job_limits_usage at_end = job_clock_usage(b->run->clock);
    strbuf_printf(text, "%s: the job was stopped ", b->run->program);
    job_limits_describe(text, &b->run->set->budget.limits, b->reached, &at_end);
    strbuf_putc(text, '\n');
}

static void close_clock(void *state)
{
    job_clock_close(((const struct budget *)state)->run->clock);
}

#define T struct feature_settings
const struct feature feature_budget = {
    .options = {OPT_DURATION(0, "timeout", "DURATION",
                             "stop the job after this time, with status 124", T,
                             budget.limits.timeout_s, 0, FEATURE_TIME_MAX_S),
                OPT_STR(0, "deadline", "TIME", "stop the job at this time: 18:00, or 8h from now",
                        T, budget.limits.deadline_text),
                OPT_STR(0, "budget", "AMOUNT", "stop the job after 12gpuh, or 30.00 with --price",
                        T, budget.limits.budget_text),
                OPT_DOUBLE(0, "price", "AMOUNT", "price of one GPU hour, in any currency", T,
                           budget.limits.price, 1e-6, 1e6),
                OPT_STR(0, "start-when", "CMD", "start the job when this command succeeds", T,
                        budget.start_when),
                OPT_DURATION(0, "start-when-interval", "DURATION",
                             "longest pause between its runs (default: 60)", T,
                             budget.start_when_pause_max_s, 0.01, FEATURE_TIME_MAX_S)},
    .check = check,
    .admit = admit,
    .size = sizeof(struct budget),
    .open = open_clock,
    .attach = attach,
    .events = {.rank_started = on_rank_started},
    .ended = ended,
    .cause = FEATURE_CAUSE_LIMIT,
    .explain = explain,
    .close = close_clock,
};
