#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/strbuf.h"
#include "launcher/remote/control/control.h"

enum { ADDRESSES_MAX = 32, HEAD_START_MS = 300 };

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

/* Parses "10.0.0.1:4000" or "[fe80::1]:4000". Returns the length of the address, or -EINVAL. */
static int parse_address(struct sockaddr_storage *out, const char *text)
{
    char host[80];
    const char *colon = strrchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : 0;
    int port = colon ? atoi(colon + 1) : 0;
    if (len == 0 || len >= sizeof host || port <= 0 || port > 65535)
        return -EINVAL;
    memcpy(host, text, len);
    host[len] = '\0';
    struct sockaddr_in *four = (struct sockaddr_in *)out;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)out;
    memset(out, 0, sizeof *out);
    if (host[0] == '[' && host[len - 1] == ']') {
        host[len - 1] = '\0';
        six->sin6_family = AF_INET6;
        six->sin6_port = htons((uint16_t)port);
        return inet_pton(AF_INET6, host + 1, &six->sin6_addr) == 1 ? (int)sizeof *six : -EINVAL;
    }
    four->sin_family = AF_INET;
    four->sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &four->sin_addr) == 1 ? (int)sizeof *four : -EINVAL;
}

static void start_next(struct attempts *a)
{
    struct sockaddr_storage addr;
    int i = a->started++, len = parse_address(&addr, a->address[i]);
    if (len < 0) {
        attempt_failed(a, i, -len);
        return;
    }
    int fd = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    a->at[i] = (struct pollfd){.fd = fd, .events = POLLOUT};
    if (fd < 0 ||
        (connect(fd, (struct sockaddr *)&addr, (socklen_t)len) < 0 && errno != EINPROGRESS))
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
