#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/host_port.h"
#include "common/listen.h"
#include "common/strbuf.h"
#include "launcher/node/port_hold.h"
#include "launcher/remote/control/control.h"

enum { ADDRESSES_MAX = 32, HEAD_START_MS = 300, BACKLOG = 4096 };

struct attempts {
    struct pollfd at[ADDRESSES_MAX]; /* fd < 0: failed, or not started */
    const char *address[ADDRESSES_MAX];
    int count, started;
    struct strbuf errors;
};

static void attempt_failed(struct attempts *a, int i, int error)
{
    auto_fd(&a->at[i].fd);
    a->at[i].fd = -1;
    strbuf_printf(&a->errors, "%s%s: %s", a->errors.len ? "; " : "", a->address[i],
                  strerror(error));
}

static void start_next(struct attempts *a)
{
    struct host_port at;
    struct listen_address addr;
    int i = a->started++;
    if (host_port_parse(&at, a->address[i], NULL) < 0 || at.port <= 0 ||
        listen_address_read(&addr, at.host, at.port) < 0) {
        attempt_failed(a, i, EINVAL);
        return;
    }
    int fd = socket(addr.at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    a->at[i] = (struct pollfd){.fd = fd, .events = POLLOUT};
    if (fd < 0 || (connect(fd, &addr.at.any, addr.size) < 0 && errno != EINPROGRESS))
        attempt_failed(a, i, errno);
}

/* Returns the first socket that is connected; -1: none so far. */
static int find_connected(struct attempts *a)
{
    for (int i = 0; i < a->started; i++) {
        int error = 0;
        socklen_t len = sizeof error;
        if (a->at[i].fd < 0 || !a->at[i].revents)
            continue;
        getsockopt(a->at[i].fd, SOL_SOCKET, SO_ERROR, &error, &len);
        if (error == 0)
            return fd_take(&a->at[i].fd);
        attempt_failed(a, i, error);
    }
    return -1;
}

static bool any_open(const struct attempts *a)
{
    for (int i = 0; i < a->started; i++)
        if (a->at[i].fd >= 0)
            return true;
    return false;
}

static int connect_any(struct attempts *a, int limit_ms)
{
    int fd = -1;
    int64_t now = clock_ms(), deadline = now + limit_ms, next = now;
    while (fd < 0 && now < deadline && (a->started < a->count || any_open(a))) {
        if (a->started < a->count && (now >= next || !any_open(a))) {
            start_next(a);
            next = now + HEAD_START_MS;
        }
        int64_t until = a->started < a->count && next < deadline ? next : deadline;
        if (any_open(a) && poll(a->at, (nfds_t)a->started, (int)(until - now)) > 0)
            fd = find_connected(a);
        now = clock_ms();
    }
    for (int i = 0; i < a->started; i++)
        if (a->at[i].fd >= 0 && fd < 0)
            attempt_failed(a, i, ETIMEDOUT);
        else
            auto_fd(&a->at[i].fd);
    return fd;
}

int control_connect(int *fd, const char *list, int limit_ms, struct err *e)
{
    AUTO(free) char *copy = xstrdup(list);
    struct attempts a = {.count = 0};
    for (char *rest = copy, *one; a.count < ADDRESSES_MAX && (one = strsep(&rest, ","));)
        a.address[a.count++] = one;
    *fd = connect_any(&a, limit_ms);
    int rc = *fd >= 0 ? 0 : err_set(e, -ECONNREFUSED, "connect to %s", strbuf_str(&a.errors));
    strbuf_free(&a.errors);
    return rc;
}

/* ---- the other end: where peers connect -------------------------------------------------------
 */

int control_listen(uv_tcp_t *listener, int *held_fd, uv_loop_t *loop, struct host_port_range ports,
                   uv_connection_cb connected, struct err *e)
{
    int port = 0;
    *held_fd = -1;
    uv_tcp_init(loop, listener);
    if (ports.first && port_hold_in(held_fd, &port, ports, e) < 0)
        return e ? e->code : -EADDRINUSE;
    struct listen_address everywhere = listen_everywhere(port);
    AUTO(fd) int fd = listen_bind(&everywhere, LISTEN_REUSE);
    int rc = fd < 0 ? fd : uv_tcp_open(listener, fd);
    if (rc == 0)
        (void)fd_take(&fd); /* the handle has it */
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)listener, BACKLOG, connected);
    return rc < 0 ? err_set(e, rc, "listen for agents: %s", uv_strerror(rc)) : 0;
}

int control_listener_port(const uv_tcp_t *listener)
{
    struct listen_address a = {0};
    int size = sizeof a.at;
    (void)uv_tcp_getsockname(listener, &a.at.any, &size); /* cannot fail, since it listens */
    return listen_port(&a.at.any);
}

char *control_address_list(char *const *addresses, int port)
{
    AUTO(strbuf) struct strbuf b = {0};
    for (size_t i = 0; addresses && addresses[i]; i++)
        strbuf_printf(&b, strchr(addresses[i], ':') ? "%s[%s]:%d" : "%s%s:%d", b.len ? "," : "",
                      addresses[i], port);
    if (b.len == 0)
        strbuf_printf(&b, "127.0.0.1:%d", port);
    return strbuf_take(&b);
}
