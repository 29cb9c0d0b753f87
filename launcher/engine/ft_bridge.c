#include "launcher/engine/ft_bridge.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/child.h"
#include "common/log.h"
#include "common/own_process.h"
#include "launcher/node/session_dir.h"
#include "launcher/plan/env.h"

enum { FIRST_FD = 3 }; /* of the sockets, in the bridge */

struct listener {
    uv_poll_t poll;
    int fd;
    struct ft_bridge *bridge;
};

struct ft_bridge {
    uv_loop_t *loop;
    uv_process_t process;
    bool started, exited; /* the process */
    struct session_dir *dir;
    char *config;
    char **env; /* strv */
    int ranks;
    struct listener *listeners;       /* by rank */
    struct report_channel **channels; /* by rank */
    int *channel_ends;                /* by rank: the bridge's end, until it is started; else -1 */
    int open;                         /* handles of this struct in the loop */
    bool closed;
    struct report_channel_events ev;
};

static char *script_path(struct err *e)
{
    char *path = NULL;
    return own_process_share(&path, "ft_bridge.py", e) < 0 ? NULL : path;
}

/* The Python that runs the ranks' scripts (torchrun's PYTHON_EXEC). */
static const char *python_of(char *const *env)
{
    const char *exec = env_get(env, "PYTHON_EXEC");
    return exec && *exec ? exec : "python3";
}

char *ft_bridge_socket(const struct ft_bridge *b, int i)
{
    return xasprintf("%s/ft-%d.socket", session_dir_path(b->dir), i);
}

/* ---- the end -------------------------------------------------------------------------------- */

static void release(struct ft_bridge *b)
{
    if (--b->open > 0 || !b->closed)
        return;
    free(b->listeners);
    free(b->channels);
    free(b->channel_ends);
    free(b->config);
    strv_free(b->env);
    free(b);
}

static void on_listener_closed(uv_handle_t *h)
{
    struct listener *l = h->data;
    close(fd_take(&l->fd));
    release(l->bridge);
}

static void on_process_closed(uv_handle_t *h)
{
    release(h->data);
}

static void close_listeners(struct ft_bridge *b)
{
    for (int i = 0; i < b->ranks; i++)
        if (b->listeners[i].poll.data && !uv_is_closing((uv_handle_t *)&b->listeners[i].poll))
            uv_close((uv_handle_t *)&b->listeners[i].poll, on_listener_closed);
}

static void close_channel_ends(struct ft_bridge *b)
{
    for (int i = 0; i < b->ranks; i++)
        auto_fd(&b->channel_ends[i]);
}

/* Tells the job that the clients have lost their connections: their time limits end. */
static void disconnect_all(struct ft_bridge *b)
{
    static const char packet[] = "{\"kind\":\"disconnect\"}";
    for (int i = 0; i < b->ranks && !b->closed; i++) {
        report_channel_drain(b->channels[i]);
        b->ev.packet(b->ev.arg, i, packet, sizeof packet - 1);
    }
}

/* Clients that connect from now on get an error. */
static void on_process_exit(uv_process_t *p, int64_t status, int sig)
{
    struct ft_bridge *b = p->data;
    b->exited = true;
    uv_close((uv_handle_t *)p, on_process_closed);
    if (b->closed)
        return;
    log_warn("the bridge to nvidia-resiliency-ext has ended with %s %d: sections and heartbeats of "
             "RankMonitorClient are not watched",
             sig ? "signal" : "status", sig ? sig : (int)status);
    close_listeners(b);
    disconnect_all(b);
}

void ft_bridge_close(struct ft_bridge *b)
{
    if (!b || b->closed)
        return;
    b->closed = true;
    b->open++; /* until the end of this function */
    if (b->started && !b->exited)
        uv_process_kill(&b->process, SIGKILL);
    close_listeners(b);
    for (int i = 0; i < b->ranks; i++)
        report_channel_close(b->channels[i]);
    close_channel_ends(b);
    session_dir_close(b->dir);
    release(b);
}

/* ---- the start ------------------------------------------------------------------------------ */

static int spawn(struct ft_bridge *b, const char *script)
{
    AUTO(free) char *ranks = xasprintf("%d", b->ranks);
    char *argv[] = {(char *)python_of(b->env), (char *)script, b->config, ranks, NULL};
    AUTO(free)
    uv_stdio_container_t *io = xcalloc(FIRST_FD + 2 * (size_t)b->ranks, sizeof *io);
    io[0].flags = UV_IGNORE;
    io[1] = io[2] = (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO};
    for (int i = 0; i < b->ranks; i++) {
        io[FIRST_FD + i] =
            (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = b->listeners[i].fd};
        io[FIRST_FD + b->ranks + i] =
            (uv_stdio_container_t){.flags = UV_INHERIT_FD, .data.fd = b->channel_ends[i]};
    }
    uv_process_options_t o = {.exit_cb = on_process_exit,
                              .file = argv[0],
                              .args = argv,
                              .env = b->env,
                              .stdio = io,
                              .stdio_count = FIRST_FD + 2 * b->ranks};
    b->process.data = b;
    int rc = uv_spawn(b->loop, &b->process, &o);
    b->open++; /* uv_spawn() initializes the handle also if it fails */
    if (rc < 0)
        uv_close((uv_handle_t *)&b->process, on_process_closed);
    return rc;
}

/* The first client has connected: starts the bridge, which accepts the connection. */
static void on_readable(uv_poll_t *p, int status, int events)
{
    struct listener *l = p->data;
    struct ft_bridge *b = l->bridge;
    struct err e = {0};
    for (int i = 0; i < b->ranks; i++)
        uv_poll_stop(&b->listeners[i].poll);
    AUTO(free) char *script = script_path(&e);
    int rc = script ? spawn(b, script) : e.code;
    b->started = rc == 0;
    close_channel_ends(b);
    if (rc == 0)
        return;
    log_error("the bridge to nvidia-resiliency-ext cannot be started: %s: %s", python_of(b->env),
              script ? uv_strerror(rc) : e.text);
    close_listeners(b);
}

static int open_listener(struct ft_bridge *b, int i, struct err *e)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    AUTO(free) char *path = ft_bridge_socket(b, i);
    if (strlen(path) >= sizeof address.sun_path) {
        err_set(e, -ENAMETOOLONG, "%s: too long for a socket", path);
        return err_hint(e, "TMPDIR=/tmp");
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    AUTO(fd) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 4) < 0)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    struct listener *l = &b->listeners[i];
    int rc = uv_poll_init(b->loop, &l->poll, fd);
    if (rc < 0)
        return err_set(e, rc, "%s: %s", path, uv_strerror(rc));
    l->poll.data = l;
    l->bridge = b;
    l->fd = fd_take(&fd);
    b->open++;
    uv_poll_start(&l->poll, UV_READABLE, on_readable);
    return 0;
}

int ft_bridge_open(struct ft_bridge **out, uv_loop_t *loop, const char *config, char *const *env,
                   int ranks, const struct report_channel_events *ev, struct err *e)
{
    AUTO(ft_bridge) struct ft_bridge *b = xzalloc(sizeof *b);
    size_t n = (size_t)ranks;
    b->loop = loop;
    b->ranks = ranks;
    b->config = xstrdup(config);
    b->env = strv_copy(env);
    b->ev = *ev;
    b->listeners = xcalloc(n, sizeof *b->listeners);
    b->channels = xcalloc(n, sizeof *b->channels);
    b->channel_ends = xcalloc(n, sizeof *b->channel_ends);
    for (int i = 0; i < ranks; i++)
        b->channel_ends[i] = -1;
    int rc = session_dir_open(&b->dir, e);
    for (int i = 0; rc == 0 && i < ranks; i++) {
        struct report_channel_events of_rank = {i, ev->packet, ev->arg};
        rc = report_channel_open(&b->channels[i], &b->channel_ends[i], loop, &of_rank, e);
        if (rc == 0)
            rc = open_listener(b, i, e);
    }
    if (rc == 0)
        *out = TAKE(b);
    return rc;
}

int ft_bridge_check(struct err *e)
{
    AUTO(free) char *script = script_path(e);
    struct child_result r = {0};
    if (!script)
        return e->code;
    const char *program = python_of(environ);
    char *argv[] = {(char *)program, script, (char *)"--check", NULL};
    const struct child_opts o = {.argv = argv, .out = CHILD_KEEP, .messages = CHILD_KEEP};
    if (child_run(&r, &o, e) < 0)
        return e->code;
    if (r.status == 0)
        return 0;
    err_set(e, -ENOENT, "%s has no module nvidia_resiliency_ext.fault_tolerance", program);
    return err_hint(e, "pip install nvidia-resiliency-ext");
}
