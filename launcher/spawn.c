#include "launcher/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/bind.h"

enum {
    RANK_FDS = 4,      /* stdin, stdout, stderr, report */
    EXIT_NO_EXEC = 127 /* seen by nobody: the pipe has told the reason */
};

struct failure {
    int step;
    int error;
};

/* All that the child needs, made before the fork. */
struct birth {
    const struct guardian_rank *rank;
    struct bind bind;
    pid_t parent;
    int result_fd;
};

const char *spawn_step_name(int step)
{
    static const char *const names[] = {"fork", "chdir", "bind", "exec"};
    return step >= SPAWN_FORK && step <= SPAWN_EXEC ? names[step] : "start";
}

static void birth_end(struct birth *b)
{
    bind_free(&b->bind);
    auto_fd(&b->result_fd);
}

/* ---- in the child ---------------------------------------------------------------------------
 * The parent has one thread, so no lock is held by another; nothing here allocates all the same. */

static _Noreturn void fail(const struct birth *b, enum spawn_step step)
{
    struct failure f = {.step = (int)step, .error = errno};
    (void)!write(b->result_fd, &f, sizeof f); /* the parent is gone: nobody is left to tell */
    _exit(EXIT_NO_EXEC);
}

/* Makes the rank's descriptors 0 to 3, and every other one end with the exec. */
static void take_fds(struct birth *b)
{
    const struct guardian_rank *r = b->rank;
    int from[RANK_FDS] = {r->fds[0], r->fds[1], r->fds[2], r->report_fd};
    int count = r->report_fd >= 0 ? RANK_FDS : RANK_FDS - 1;
    /* First out of the way of one another. */
    int result_fd = fcntl(b->result_fd, F_DUPFD_CLOEXEC, RANK_FDS);
    if (result_fd < 0)
        fail(b, SPAWN_FORK);
    b->result_fd = result_fd;
    for (int i = 0; i < count; i++)
        if ((from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, RANK_FDS)) < 0)
            fail(b, SPAWN_FORK);
    for (int i = 0; i < count; i++)
        if (dup2(from[i], i) < 0)
            fail(b, SPAWN_FORK);
    /* A kernel before 5.11 refuses; what we opened is close-on-exec anyway. */
    (void)syscall(SYS_close_range, (unsigned)count, ~0U, CLOSE_RANGE_CLOEXEC);
}

static void default_signals(void)
{
    struct sigaction as_usual = {.sa_handler = SIG_DFL};
    for (int sig = 1; sig < NSIG; sig++)
        (void)sigaction(sig, &as_usual, NULL); /* KILL, STOP and libc's own refuse */
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become_rank(struct birth *b)
{
    const struct guardian_rank *r = b->rank;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != b->parent) /* it ended before it could be asked for the signal */
        _exit(EXIT_NO_EXEC);
    take_fds(b);
    if (r->wdir && chdir(r->wdir) < 0)
        fail(b, SPAWN_CHDIR);
    int rc = bind_apply(&b->bind);
    if (rc < 0) {
        errno = -rc;
        fail(b, SPAWN_BIND);
    }
    default_signals();
    environ = (char **)r->env; /* execvp looks for the program in this PATH */
    execvp(r->argv[0], r->argv);
    fail(b, SPAWN_EXEC);
}

/* ---- in the parent ----------------------------------------------------------------------- */

/* No handler of ours may run in the child. */
static pid_t fork_quietly(void)
{
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    pid_t pid = fork();
    int error = errno;
    if (pid != 0)
        sigprocmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return pid;
}

int spawn_start(pid_t *pid, int *result_fd, const struct guardian_rank *r, enum spawn_step *step)
{
    __attribute__((cleanup(birth_end))) struct birth b = {
        .rank = r, .parent = getpid(), .result_fd = -1};
    *step = SPAWN_BIND;
    int rc = bind_parse(&b.bind, r->cpus, r->mems, NULL);
    if (rc < 0)
        return rc;
    *step = SPAWN_FORK;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    AUTO(fd) int read_end = ends[0];
    b.result_fd = ends[1];
    pid_t child = fork_quietly();
    if (child < 0)
        return -errno;
    if (child == 0)
        become_rank(&b);
    setpgid(child, child); /* whoever is first: the group is there when we return */
    *pid = child;
    *result_fd = fd_take(&read_end);
    return 0;
}

int spawn_result(int result_fd, enum spawn_step *step)
{
    struct failure f;
    ssize_t n = read(result_fd, &f, sizeof f);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : 1;
    if (n < (ssize_t)sizeof f)
        return 1;
    *step = (enum spawn_step)f.step;
    return f.error > 0 ? -f.error : -EIO;
}
