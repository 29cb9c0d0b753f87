#include "launcher/doctor/active/own_command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/file.h"
#include "common/own_process.h"
#include "launcher/plan/env.h"

int own_command_hosts(const struct hosts *hosts, struct err *e)
{
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(fd) int fd = memfd_create("hosts", 0);
    for (int i = 0; i < hosts->count; i++) {
        const struct host *h = &hosts->at[i];
        strbuf_printf(&b, "%s slots=1", h->name);
        if (h->port)
            strbuf_printf(&b, " port=%d", h->port);
        strbuf_puts(&b, "\n");
    }
    int rc = fd < 0 ? -errno : file_write_all(fd, b.data, b.len);
    return rc < 0 ? err_set(e, rc, "list of nodes: %s", strerror(-rc)) : fd_take(&fd);
}

/* Reads both pipes until they end. */
static void read_both(struct own_command *c, int out, int messages)
{
    struct pollfd p[] = {{.fd = out, .events = POLLIN}, {.fd = messages, .events = POLLIN}};
    struct strbuf *to[] = {&c->out, &c->messages};
    char buf[16384];
    while (p[0].fd >= 0 || p[1].fd >= 0) {
        if (poll(p, COUNT_OF(p), -1) < 0)
            continue; /* EINTR */
        for (size_t i = 0; i < COUNT_OF(p); i++) {
            if (p[i].fd < 0 || !p[i].revents)
                continue;
            ssize_t n = read(p[i].fd, buf, sizeof buf);
            if (n > 0)
                strbuf_add(to[i], buf, (size_t)n);
            else if (n == 0 || errno != EINTR)
                p[i].fd = -1;
        }
    }
}

int own_command_run(struct own_command *c, char *const *argv, char *const *env, struct err *e)
{
    AUTO(free) char *drover = NULL;
    AUTO(strv) char **line = NULL, **all = env_merge(environ, env, NULL);
    int out[2] = {-1, -1}, messages[2] = {-1, -1}, status = 0;
    pid_t pid;
    int rc = own_process_sibling(&drover, "drover", e);
    if (rc < 0)
        return rc;
    strv_push(&line, xstrdup(drover));
    for (; *argv; argv++)
        strv_push(&line, xstrdup(*argv));
    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(messages, O_CLOEXEC) < 0)
        rc = -errno;
    posix_spawn_file_actions_t fds;
    posix_spawn_file_actions_init(&fds);
    posix_spawn_file_actions_addopen(&fds, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&fds, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&fds, messages[1], STDERR_FILENO);
    if (rc == 0)
        rc = -posix_spawn(&pid, drover, &fds, NULL, line, all);
    posix_spawn_file_actions_destroy(&fds);
    auto_fd(&out[1]);
    auto_fd(&messages[1]);
    if (rc == 0) {
        read_both(c, out[0], messages[0]);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        c->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    auto_fd(&out[0]);
    auto_fd(&messages[0]);
    return rc < 0 ? err_set(e, rc, "%s: %s", drover, strerror(-rc)) : 0;
}

char *own_command_error(const struct own_command *c)
{
    AUTO(free) char *copy = xstrdup(strbuf_str(&c->messages));
    for (char *rest = copy, *line; (line = strsep(&rest, "\n"));) {
        const char *text = strncmp(line, "drover", 6) == 0 ? strstr(line, ": ") : NULL;
        if (text && strncmp(text, ": warn: ", 8) != 0)
            return xstrdup(text + 2);
    }
    return xasprintf("it has ended with status %d", c->status);
}
