#include "launcher/agent/node_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/own_process.h"

static int start(pid_t *pid, char *const *argv, const int ends[2], struct err *e)
{
    const char *drover = argv[0];
    posix_spawn_file_actions_t fds;
    posix_spawn_file_actions_init(&fds);
    posix_spawn_file_actions_adddup2(&fds, ends[0], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&fds, ends[1], STDERR_FILENO);
    int rc = posix_spawn(pid, drover, &fds, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&fds);
    return rc ? err_set(e, -rc, "%s: %s", drover, strerror(rc)) : 0;
}

static void read_all(struct strbuf *out, int fd)
{
    char buf[16384];
    ssize_t n;
    while ((n = read(fd, buf, sizeof buf)) != 0) {
        if (n > 0)
            strbuf_add(out, buf, (size_t)n);
        else if (errno != EINTR)
            return;
    }
}

static const char *last_line(struct strbuf *text)
{
    while (text->len > 0 && text->data[text->len - 1] == '\n')
        text->data[--text->len] = '\0';
    const char *nl = text->len ? strrchr(text->data, '\n') : NULL;
    return nl ? nl + 1 : strbuf_str(text);
}

/* Returns the command line of `drover machine`, a strv. */
static char **command_line(const char *drover, const struct node_probe_checks *c)
{
    char **argv = NULL;
    strv_push(&argv, xstrdup(drover));
    strv_push(&argv, xstrdup("machine"));
    strv_push(&argv, xstrdup("--preflight"));
    if (c->ranks > 0)
        strv_push(&argv, xasprintf("--ranks=%d", c->ranks));
    if (c->gpus)
        strv_push(&argv, xasprintf("--gpus=%s", c->gpus));
    return argv;
}

int node_probe(struct strbuf *out, const struct node_probe_checks *checks, struct err *e)
{
    AUTO(free) char *drover = NULL;
    AUTO(strv) char **argv = NULL;
    AUTO(strbuf) struct strbuf messages = {0};
    int out_pipe[2] = {-1, -1}, err_pipe[2] = {-1, -1}, status = 0;
    pid_t pid;
    int rc = own_process_sibling(&drover, "drover", e);
    if (rc == 0)
        argv = command_line(drover, checks);
    if (rc == 0 && (pipe2(out_pipe, O_CLOEXEC) < 0 || pipe2(err_pipe, O_CLOEXEC) < 0))
        rc = err_set(e, -errno, "pipe: %s", strerror(errno));
    if (rc == 0)
        rc = start(&pid, argv, (int[]){out_pipe[1], err_pipe[1]}, e);
    auto_fd(&out_pipe[1]);
    auto_fd(&err_pipe[1]);
    if (rc == 0) {
        read_all(out, out_pipe[0]);
        read_all(&messages, err_pipe[0]); /* a few lines, which fit into the pipe */
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        if (status != 0)
            rc = err_set(e, -EIO, "%s",
                         messages.len ? last_line(&messages) : "`drover machine` failed");
        else if (messages.len)
            (void)!write(STDERR_FILENO, messages.data, messages.len);
    }
    auto_fd(&out_pipe[0]);
    auto_fd(&err_pipe[0]);
    return rc;
}
