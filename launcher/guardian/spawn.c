#include "launcher/guardian/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/node/cpu_bind.h"

enum {
    STACK_BYTES = 64 << 10, /* stack of the child; execvp() also needs a pointer per argument */
    EXIT_NO_EXEC = 127      /* not used: `error` has the reason */
};

/* What the child needs, prepared before its start, and its result. */
struct child {
    const struct guardian_rank *rank;
    const struct cpu_bind *bind;
    const char *procs; /* path of its cgroup's cgroup.procs; NULL: none */
    pid_t parent;
    enum spawn_step step;
    int error; /* 0: none */
};

const char *spawn_step_name(int step)
{
    static const char *const names[] = {"fork", "chdir", "cgroup", "bind", "exec"};
    return step >= SPAWN_FORK && step <= SPAWN_EXEC ? names[step] : "start";
}

/* ---- in the child ---------------------------------------------------------------------------
 * The child runs in this process's memory, on its own stack, while this process waits. It changes
 * only this stack and `struct child`. */

static int fail(struct child *b, enum spawn_step step)
{
    b->error = errno;
    b->step = step;
    return EXIT_NO_EXEC;
}

/* Moves the rank's descriptors to the numbers 0 to 4. Makes all other descriptors close-on-exec. */
static bool set_fds(const struct child *b)
{
    const struct guardian_rank *r = b->rank;
    int from[] = {r->fds[0], r->fds[1], r->fds[2], r->report_fd, r->pmi_fd};
    const int count = COUNT_OF(from);
    for (int i = 0; i < count; i++) /* first moves them away from these numbers */
        if (from[i] >= 0 && from[i] < count &&
            (from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, count)) < 0)
            return false;
    for (int i = 0; i < count; i++)
        if (from[i] < 0)
            (void)fcntl(i, F_SETFD, FD_CLOEXEC); /* the number may not be open */
        else if (dup2(from[i], i) < 0)
            return false;
    /* A kernel before 5.11 does not have this call. drover's own descriptors are close-on-exec in
     * any case. */
    (void)syscall(SYS_close_range, (unsigned)count, ~0U, CLOSE_RANGE_CLOEXEC);
    return true;
}

/* Moves this process into a cgroup. The number 0 means the process that writes it. */
static bool enter_cgroup(const char *procs)
{
    int fd = open(procs, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, "0", 1) == 1 && close(fd) == 0;
}

/* Executes the rank's program. Returns an exit status if that is not possible. */
static int become_rank(void *arg)
{
    struct child *b = arg;
    const struct guardian_rank *r = b->rank;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != b->parent) /* the parent ended before prctl() took effect */
        return EXIT_NO_EXEC;
    if (!set_fds(b))
        return fail(b, SPAWN_FORK);
    if (r->wdir && chdir(r->wdir) < 0)
        return fail(b, SPAWN_CHDIR);
    /* Must precede allocations of memory, which the cgroup counts */
    if (b->procs && !enter_cgroup(b->procs))
        return fail(b, SPAWN_CGROUP);
    int rc = cpu_bind_apply(b->bind);
    if (rc < 0) {
        errno = -rc;
        return fail(b, SPAWN_BIND);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(r->argv[0], r->argv);
    return fail(b, SPAWN_EXEC);
}

/* ---- in the parent -------------------------------------------------------------------------- */

void spawn_default_signals(void)
{
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    for (int sig = 1; sig < NSIG; sig++)
        (void)sigaction(sig, &by_default, NULL); /* fails for KILL, STOP and libc's own */
}

/* Starts the child. Returns its pid, or -1. Blocks all signals until the child runs its program,
 * since no signal handler of this process may run in the child. */
static pid_t start_child(struct child *b)
{
    size_t stack_bytes = STACK_BYTES + strv_len(b->rank->argv) * sizeof(char *);
    AUTO(free) char *stack = malloc(stack_bytes); /* not zeroed: most of it is never used */
    if (!stack)
        return -1;
    char **own_env = environ;
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    environ = (char **)b->rank->env; /* execvp() searches the program in this PATH */
    char *top = stack + (stack_bytes & ~(size_t)15);
    pid_t pid = clone(become_rank, top, CLONE_VM | CLONE_VFORK | SIGCHLD, b);
    int error = errno;
    environ = own_env;
    sigprocmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid;
}

int spawn_start(pid_t *pid, const struct guardian_rank *r, enum spawn_step *step)
{
    AUTO(cpu_bind) struct cpu_bind bind = {0};
    AUTO(free) char *procs = r->cgroup ? xasprintf("%s/cgroup.procs", r->cgroup) : NULL;
    struct child b = {.rank = r, .bind = &bind, .procs = procs, .parent = getpid()};
    *step = SPAWN_BIND;
    int rc = cpu_bind_parse(&bind, r->cpus, r->mems, NULL);
    if (rc < 0)
        return rc;
    *step = SPAWN_FORK;
    pid_t child = start_child(&b);
    if (child < 0)
        return -errno;
    if (b.error) {
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            ;
        *step = b.step;
        return -b.error;
    }
    *pid = child;
    return 0;
}
