/* cmd_kill - `drover kill JOB`: ends a job in good order, or sends it a signal. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>

#include "common/opt.h"
#include "launcher/cmd/commands.h"
#include "launcher/registry/registry.h"

struct kill_opts {
    const char *signal;
    double wait_s;
};

static const struct opt options[] = {
    OPT_STR('s', "signal", "NAME", "this signal, by name or number (TERM)", struct kill_opts,
            signal),
    OPT_DOUBLE(0, "wait", "SECONDS", "wait so long for its end (60)", struct kill_opts, wait_s),
    OPT_END,
};

/* "TERM", "SIGTERM", "term" or "15"; negative where there is none such. */
static int read_signal(const char *text, struct err *e)
{
    int sig = 0;
    if (text[0] >= '0' && text[0] <= '9')
        return opt_int(&sig, "--signal", text, 1, SIGRTMAX, e) < 0 ? e->code : sig;
    const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
    for (sig = 1; sig < SIGRTMIN; sig++)
        if (sigabbrev_np(sig) && strcasecmp(sigabbrev_np(sig), name) == 0)
            return sig;
    err_set(e, -EINVAL, "signal '%s' is not known", text);
    return err_hint(e, "TERM, INT, KILL, USR1, …, or a number");
}

/* What ends `drover run`; the others go on to the ranks, and the job does too. */
static bool ends_jobs(int sig)
{
    return sig == SIGTERM || sig == SIGINT || sig == SIGHUP || sig == SIGQUIT || sig == SIGKILL;
}

/* Waits for the process's end. 0, or -ETIMEDOUT. */
static int await_end(int pidfd, const struct registry_job *j, double wait_s, struct err *e)
{
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    int n;
    while ((n = poll(&p, 1, (int)(wait_s * 1000))) < 0 && errno == EINTR)
        ;
    if (n > 0)
        return 0;
    err_set(e, -ETIMEDOUT, "job %s has not ended in %g s (its ranks have their --grace)", j->id,
            wait_s);
    return err_hint(e, "drover kill --signal KILL %s", j->id);
}

/* The descriptor is taken before the look at who it is: so it cannot be another in the end. */
static int end_job(const struct registry_job *j, int sig, double wait_s, struct err *e)
{
    AUTO(fd) int fd = (int)syscall(SYS_pidfd_open, j->pid, 0);
    if (fd < 0 && errno != ESRCH)
        return err_set(e, -errno, "job %s: its process %d: %s", j->id, (int)j->pid,
                       strerror(errno));
    if (fd < 0 || !registry_is_alive(j))
        return 0; /* it has just ended */
    if (syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) < 0 && errno != ESRCH)
        return err_set(e, -errno, "job %s: signal its process %d: %s", j->id, (int)j->pid,
                       strerror(errno));
    return ends_jobs(sig) ? await_end(fd, j, wait_s, e) : 0;
}

static int find_and_end(const char *name, int sig, double wait_s, struct err *e)
{
    struct registry_list l;
    const struct registry_job *j = NULL;
    registry_read(&l);
    int rc = registry_find(&j, &l, name, e);
    int status = rc < 0 ? EXIT_STATUS_USAGE : 0;
    if (rc == 0 && end_job(j, sig, wait_s, e) < 0)
        status = EXIT_STATUS_FAILED;
    registry_end(&l);
    return status;
}

int cmd_kill(int argc, char **argv)
{
    struct kill_opts o = {.signal = "TERM", .wait_s = 60};
    struct err e = {0};
    int rest = argc, sig = 0, status = EXIT_STATUS_USAGE;
    int rc = opt_parse(options, &o, argc, argv, &rest, &e);
    if (rc == OPT_HELP) {
        opt_help(
            stdout, "drover kill", "[--signal NAME] JOB",
            "Ends a job that `drover ps` lists (its name, or the beginning of it) and waits for "
            "its end.\nOther signals, such as USR1, go on to its ranks.",
            options);
        return 0;
    }
    if (rc == 0 && rest + 1 != argc) {
        rc = err_set(&e, -EINVAL, "which job?");
        err_hint(&e, "drover kill JOB; `drover ps` lists them");
    }
    if (rc == 0 && (o.wait_s < 0 || o.wait_s > 1e6))
        rc = err_set(&e, -EINVAL, "--wait %g: negative or too long", o.wait_s);
    if (rc == 0)
        rc = sig = read_signal(o.signal, &e);
    if (rc > 0)
        status = find_and_end(argv[rest], sig, o.wait_s, &e);
    if (status)
        err_print(&e, "drover kill");
    return status;
}
