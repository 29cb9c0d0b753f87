#include "common/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"

enum { KILL_WAIT_MS = 100 };

extern char **environ;

/* ---- the start ------------------------------------------------------------------------------ */

/* Makes the pipes: ends[i] are the child's ends, own[i] those of this process. */
static int open_pipes(int ends[3], int own[3], const enum child_stream streams[3])
{
    for (int i = 0; i < 3; i++) {
        int pair[2];
        if (streams[i] != CHILD_PIPE)
            continue;
        if (pipe2(pair, O_CLOEXEC) < 0)
            return -errno;
        ends[i] = pair[i != 0];
        own[i] = pair[i == 0];
    }
    return 0;
}

static void add_streams(posix_spawn_file_actions_t *a, const enum child_stream streams[3],
                        const int ends[3])
{
    for (int i = 0; i < 3; i++)
        if (streams[i] == CHILD_PIPE)
            posix_spawn_file_actions_adddup2(a, ends[i], i);
        else if (streams[i] == CHILD_NULL)
            posix_spawn_file_actions_addopen(a, i, "/dev/null", i == 0 ? O_RDONLY : O_WRONLY, 0);
    if (streams[2] == CHILD_OUT)
        posix_spawn_file_actions_adddup2(a, STDOUT_FILENO, STDERR_FILENO);
}

static void close_all(int fds[3])
{
    for (int i = 0; i < 3; i++)
        auto_fd(&fds[i]);
}

int child_start(struct child *c, const struct child_opts *o, struct err *e)
{
    const enum child_stream streams[3] = {o->in, o->out, o->messages};
    int ends[3] = {-1, -1, -1}, own[3] = {-1, -1, -1};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, o->group ? POSIX_SPAWN_SETPGROUP : 0);
    int rc = open_pipes(ends, own, streams);
    add_streams(&actions, streams, ends);
    if (rc == 0)
        rc = -posix_spawnp(&c->pid, o->argv[0], &actions, &attributes, o->argv,
                           o->env ? o->env : environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close_all(ends);
    if (rc < 0) {
        close_all(own);
        return err_set(e, rc, "%s: %s", o->argv[0], strerror(-rc));
    }
    c->in = own[0];
    c->out = own[1];
    c->messages = own[2];
    return 0;
}

/* ---- the end -------------------------------------------------------------------------------- */

int child_wait(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void child_kill(pid_t pid)
{
    pid_t first = pid < 0 ? -pid : pid;
    AUTO(fd) int fd = (int)syscall(SYS_pidfd_open, first, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN}; /* a kernel before 5.3: only the time limit */
    kill(pid, SIGKILL);
    (void)poll(&p, 1, KILL_WAIT_MS);
    (void)waitpid(first, NULL, WNOHANG);
}

/* Reads both pipes until they end. Returns false at the deadline. */
static bool read_pipes(struct child_result *r, const struct child *c, int deadline_ms)
{
    struct pollfd p[] = {{.fd = c->out, .events = POLLIN}, {.fd = c->messages, .events = POLLIN}};
    struct strbuf *to[] = {&r->out, &r->messages};
    int64_t end_ms = clock_ms() + deadline_ms;
    char block[16384];
    while (p[0].fd >= 0 || p[1].fd >= 0) {
        int64_t left_ms = deadline_ms ? end_ms - clock_ms() : -1;
        if (deadline_ms && left_ms <= 0)
            return false;
        if (poll(p, COUNT_OF(p), (int)left_ms) <= 0)
            continue;
        for (size_t i = 0; i < COUNT_OF(p); i++) {
            if (p[i].fd < 0 || !p[i].revents)
                continue;
            ssize_t n = read(p[i].fd, block, sizeof block);
            if (n > 0 && to[i]->len + (size_t)n <= CHILD_OUTPUT_MAX)
                strbuf_add(to[i], block, (size_t)n);
            if (n == 0 || (n < 0 && errno != EINTR))
                p[i].fd = -1;
        }
    }
    return true;
}

int child_run(struct child_result *r, const struct child_opts *o, struct err *e)
{
    struct child c;
    int rc = child_start(&c, o, e);
    if (rc < 0)
        return rc;
    auto_fd(&c.in); /* it reads nothing */
    bool ended = read_pipes(r, &c, o->deadline_ms);
    auto_fd(&c.out);
    auto_fd(&c.messages);
    if (ended) {
        r->status = child_wait(c.pid);
        return 0;
    }
    child_kill(o->group ? -c.pid : c.pid);
    return err_set(e, -ETIMEDOUT, "%s: no end within %g s", o->argv[0], o->deadline_ms / 1e3);
}
