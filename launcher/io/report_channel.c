#include "launcher/io/report_channel.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "common/log.h"

enum { PACKETS_PER_ITERATION = 32 };

struct report_channel {
    uv_poll_t poll;
    int fd;
    bool used, warned, closed;
    struct report_channel_events events;
};

static bool looks_like_object(const char *text, size_t len)
{
    static const char spaces[] = " \t\r\n";
    while (len > 0 && memchr(spaces, text[len - 1], sizeof spaces - 1))
        len--;
    size_t i = 0;
    while (i < len && memchr(spaces, text[i], sizeof spaces - 1))
        i++;
    return len - i >= 2 && text[i] == '{' && text[len - 1] == '}';
}

static void handle_packet(struct report_channel *c, const char *text, size_t len)
{
    if (len <= REPORT_CHANNEL_PACKET_MAX && looks_like_object(text, len)) {
        c->used = true;
        c->events.packet(c->events.arg, c->events.rank, text, len);
        return;
    }
    if (!c->warned)
        log_warn("rank %d: dropped a report of %zu bytes: not a JSON object of at most %d bytes "
                 "(reported once per rank)",
                 c->events.rank, len, REPORT_CHANNEL_PACKET_MAX);
    c->warned = true;
}

/* Returns true if the rank has closed its end. An empty packet reads like end of file; only POLLHUP
 * distinguishes them. */
static bool peer_closed(const struct report_channel *c)
{
    struct pollfd p = {.fd = c->fd};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR));
}

/* Reads one packet. Returns false if no packet is left. */
static bool read_one(struct report_channel *c)
{
    char buf[REPORT_CHANNEL_PACKET_MAX];
    ssize_t n;
    do {
        n = recv(c->fd, buf, sizeof buf, MSG_DONTWAIT | MSG_TRUNC);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n < 0 || (n == 0 && peer_closed(c))) {
        uv_poll_stop(&c->poll);
        return false;
    }
    handle_packet(c, buf, (size_t)n);
    return true;
}

static void on_readable(uv_poll_t *p, int status, int events)
{
    struct report_channel *c = p->data;
    for (int i = 0; i < PACKETS_PER_ITERATION && !c->closed && read_one(c); i++)
        ;
}

int report_channel_open(struct report_channel **out, int *child_fd, uv_loop_t *loop,
                        const struct report_channel_events *events, struct err *e)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return err_set(e, -errno, "rank %d's report channel: %s", events->rank, strerror(errno));
    AUTO(fd) int launcher_end = ends[0];
    AUTO(fd) int rank_end = ends[1];
    AUTO(free) struct report_channel *c = xzalloc(sizeof *c);
    int rc = uv_poll_init(loop, &c->poll, launcher_end);
    if (rc < 0)
        return err_set(e, rc, "rank %d's report channel: %s", events->rank, uv_strerror(rc));
    c->poll.data = c;
    c->fd = fd_take(&launcher_end);
    c->events = *events;
    uv_poll_start(&c->poll, UV_READABLE, on_readable);
    *child_fd = fd_take(&rank_end);
    *out = TAKE(c);
    return 0;
}

static void on_closed(uv_handle_t *h)
{
    struct report_channel *c = h->data;
    close(c->fd);
    free(c);
}

void report_channel_close(struct report_channel *c)
{
    if (!c || c->closed)
        return;
    c->closed = true;
    uv_close((uv_handle_t *)&c->poll, on_closed);
}

void report_channel_drain(struct report_channel *c)
{
    while (!c->closed && uv_is_active((uv_handle_t *)&c->poll) && read_one(c))
        ;
}

bool report_channel_used(const struct report_channel *c)
{
    return c->used;
}

void report_channel_send_stop(struct report_channel *c)
{
    static const char stop[] = "{\"stop\":true}";
    /* Not an error: see report_channel.h. */
    (void)send(c->fd, stop, sizeof stop - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}
