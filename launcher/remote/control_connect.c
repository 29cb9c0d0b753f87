#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "common/clock.h"
#include "common/strbuf.h"
#include "launcher/remote/control.h"

enum { DIALS_MAX = 32, HEAD_START_MS = 300 };

struct dials {
    struct pollfd at[DIALS_MAX]; /* fd < 0: over, or not begun */
    const char *name[DIALS_MAX];
    int count, begun;
    struct strbuf why;
};

static void gave_up(struct dials *d, int i, int error)
{
    auto_fd(&d->at[i].fd);
    d->at[i].fd = -1;
    strbuf_printf(&d->why, "%s%s: %s", d->why.len ? "; " : "", d->name[i], strerror(error));
}

/* "10.0.0.1:4000" or "[fe80::1]:4000". Returns the address's length, or -EINVAL. */
static int read_address(struct sockaddr_storage *out, const char *text)
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

static void dial_next(struct dials *d)
{
    struct sockaddr_storage a;
    int i = d->begun++, len = read_address(&a, d->name[i]);
    if (len < 0) {
        gave_up(d, i, -len);
        return;
    }
    int fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    d->at[i] = (struct pollfd){.fd = fd, .events = POLLOUT};
    if (fd < 0 || (connect(fd, (struct sockaddr *)&a, (socklen_t)len) < 0 && errno != EINPROGRESS))
        gave_up(d, i, errno);
}

/* The first that is connected; -1: none so far. */
static int answered(struct dials *d)
{
    for (int i = 0; i < d->begun; i++) {
        int error = 0;
        socklen_t len = sizeof error;
        if (d->at[i].fd < 0 || !d->at[i].revents)
            continue;
        getsockopt(d->at[i].fd, SOL_SOCKET, SO_ERROR, &error, &len);
        if (error == 0)
            return fd_take(&d->at[i].fd);
        gave_up(d, i, error);
    }
    return -1;
}

static bool any_open(const struct dials *d)
{
    for (int i = 0; i < d->begun; i++)
        if (d->at[i].fd >= 0)
            return true;
    return false;
}

static int dial_all(struct dials *d, int limit_ms)
{
    int fd = -1;
    int64_t now = clock_ms(), deadline = now + limit_ms, next = now;
    while (fd < 0 && now < deadline && (d->begun < d->count || any_open(d))) {
        if (d->begun < d->count && (now >= next || !any_open(d))) {
            dial_next(d);
            next = now + HEAD_START_MS;
        }
        int64_t until = d->begun < d->count && next < deadline ? next : deadline;
        if (any_open(d) && poll(d->at, (nfds_t)d->begun, (int)(until - now)) > 0)
            fd = answered(d);
        now = clock_ms();
    }
    for (int i = 0; i < d->begun; i++)
        if (d->at[i].fd >= 0 && fd < 0)
            gave_up(d, i, ETIMEDOUT);
        else
            auto_fd(&d->at[i].fd);
    return fd;
}

int control_connect(int *fd, const char *list, int limit_ms, struct err *e)
{
    AUTO(free) char *copy = xstrdup(list);
    struct dials d = {.count = 0};
    for (char *rest = copy, *one; d.count < DIALS_MAX && (one = strsep(&rest, ","));)
        d.name[d.count++] = one;
    *fd = dial_all(&d, limit_ms);
    int rc = *fd >= 0 ? 0 : err_set(e, -ECONNREFUSED, "connect to %s", strbuf_str(&d.why));
    strbuf_free(&d.why);
    return rc;
}
