#include "collectives/bootstrap/bootstrap_server.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/mem.h"

enum {
    UNKNOWN_MAX = 64, /* limit on connections whose rank is not known yet */
    HELLO_MS = 5000,  /* time limit for the hello of a connection */
    ANSWER_MS = 5000,
    POLL_MS = 500,
};

struct peer {
    int fd; /* -1: not connected */
    int64_t since_ms;
    struct bootstrap_hello hello;
    size_t have; /* number of bytes received, of hello and then of put */
    char *put;
};

struct round {
    const struct bootstrap_server *server;
    int size, connected;  /* number of ranks; number of connected ranks, including rank 0 */
    struct peer *ranks;   /* ranks[r] is rank r; ranks[0] is not used */
    struct peer *unknown; /* UNKNOWN_MAX entries for peers that have not sent a hello */
    int lost;             /* the first rank that disconnected; 0: none */
    char rejected[160];   /* the reason for the last rejection; "": no rank was rejected */
};

static int wait_for(int fd, short what, int64_t end_ms)
{
    int64_t left = end_ms - clock_ms();
    struct pollfd p = {.fd = fd, .events = what};
    int n = left > 0 ? poll(&p, 1, (int)(left < 1000000 ? left : 1000000)) : 0;
    return n > 0 ? 0 : n < 0 ? -errno : -ETIMEDOUT;
}

int bootstrap_server_connect(const struct addrinfo *a, int64_t end_ms)
{
    AUTO(fd) int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int rc = fd < 0 || connect(fd, a->ai_addr, a->ai_addrlen) < 0 ? -errno : 0, error = 0;
    socklen_t len = sizeof error;
    while (rc == -EINPROGRESS || rc == -EINTR)
        rc = wait_for(fd, POLLOUT, end_ms);
    if (rc == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        rc = -errno;
    rc = rc < 0 ? rc : -error;
    return rc < 0 ? rc : fd_take(&fd);
}

int bootstrap_server_send(int fd, const void *bytes, size_t len, int64_t end_ms)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = send(fd, (const char *)bytes + at, len - at, MSG_NOSIGNAL | MSG_DONTWAIT);
        int rc = n >= 0 ? 0 : errno == EAGAIN ? wait_for(fd, POLLOUT, end_ms) : -errno;
        if (rc < 0 && rc != -EINTR)
            return rc;
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

int bootstrap_server_recv(int fd, void *bytes, size_t len, int64_t end_ms)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = recv(fd, (char *)bytes + at, len - at, MSG_DONTWAIT);
        if (n == 0)
            return -ECONNRESET;
        int rc = n > 0 ? 0 : errno == EAGAIN ? wait_for(fd, POLLIN, end_ms) : -errno;
        if (rc < 0 && rc != -EINTR)
            return rc;
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static void disconnect(struct peer *p)
{
    if (p->fd >= 0)
        close(p->fd);
    free(p->put);
    *p = (struct peer){.fd = -1};
}

static void answer(const struct peer *p, int code, const char *bytes, size_t len)
{
    struct bootstrap_answer a = {BOOTSTRAP_MAGIC, code, (uint32_t)len};
    int64_t end = clock_ms() + ANSWER_MS;
    /* Failures are ignored: the peer notices that the connection is closed. */
    if (bootstrap_server_send(p->fd, &a, sizeof a, end) == 0)
        (void)bootstrap_server_send(p->fd, bytes, len, end);
}

static void reject(struct round *m, struct peer *p, const char *why)
{
    snprintf(m->rejected, sizeof m->rejected, "%s", why);
    answer(p, -EPROTO, why, strlen(why));
    disconnect(p);
}

/* ---- connections ---------------------------------------------------------------------------- */

static void accept_peers(struct round *m, int64_t now)
{
    int fd;
    while ((fd = accept4(m->server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct peer *free_entry = NULL, *oldest = m->unknown;
        for (int i = 0; i < UNKNOWN_MAX; i++) {
            struct peer *p = &m->unknown[i];
            if (p->fd < 0)
                free_entry = p;
            else if (oldest->fd >= 0 && p->since_ms < oldest->since_ms)
                oldest = p;
        }
        if (!free_entry) {
            disconnect(oldest);
            free_entry = oldest;
        }
        *free_entry = (struct peer){.fd = fd, .since_ms = now};
        struct bootstrap_greeting hi = {BOOTSTRAP_MAGIC, m->server->mine->token};
        /* The deadline is now: a greeting always fits into the socket's buffer. */
        if (bootstrap_server_send(fd, &hi, sizeof hi, now) < 0)
            disconnect(free_entry);
    }
}

/* Accepts a rank of this job, or rejects it and sends the reason. Called after all bytes of the
 * rank were read, since closing a socket with unread bytes would discard the answer. */
static void accept_rank(struct round *m, struct peer *p)
{
    const struct bootstrap_hello *h = &p->hello, *mine = m->server->mine;
    AUTO(strbuf) struct strbuf why = {0};
    if (h->size != mine->size || h->rank >= h->size)
        strbuf_printf(&why, "world size %u at rank %u on node %s, but %u at rank 0 on node %s",
                      h->size, h->rank, h->node, mine->size, mine->node);
    else if (h->rank == 0 || m->ranks[h->rank].fd >= 0)
        strbuf_printf(&why, "rank %u connected twice, from node %s and from node %s", h->rank,
                      h->node, h->rank ? m->ranks[h->rank].hello.node : mine->node);
    else if (h->round != mine->round)
        strbuf_printf(&why, "rank %u opens its communicator number %u, rank 0 its number %u",
                      h->rank, h->round, mine->round);
    if (why.len) {
        reject(m, p, strbuf_str(&why));
        return;
    }
    m->ranks[h->rank] = *p;
    *p = (struct peer){.fd = -1};
    m->connected++;
}

/* Reads more of a peer's hello and of the bytes that it has put. Accepts or rejects the peer when
 * it has sent all. */
static void read_peer(struct round *m, struct peer *p)
{
    for (;;) {
        bool greeted = p->have >= sizeof p->hello;
        size_t at = greeted ? p->have - sizeof p->hello : p->have;
        size_t len = greeted ? p->hello.bytes : sizeof p->hello;
        if (greeted && at == len) {
            accept_rank(m, p);
            return;
        }
        char *to = greeted ? p->put : (char *)&p->hello;
        ssize_t n = recv(p->fd, to + at, len - at, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            disconnect(p);
            return;
        }
        p->have += (size_t)n;
        if (p->have != sizeof p->hello)
            continue;
        const struct bootstrap_hello *h = &p->hello;
        if (h->magic != BOOTSTRAP_MAGIC || h->token != m->server->mine->token ||
            h->bytes > BOOTSTRAP_PUT_BYTES_MAX) { /* the peer is not a rank of this job */
            disconnect(p);
            return;
        }
        p->hello.node[BOOTSTRAP_NODE_BYTES - 1] = '\0';
        p->put = xzalloc((size_t)h->bytes + 1);
    }
}

/* ---- a round -------------------------------------------------------------------------------- */

/* Waits at most POLL_MS for events and handles them. */
static int poll_once(struct round *m, int64_t end_ms)
{
    AUTO(free) struct pollfd *fds = xcalloc((size_t)m->size + UNKNOWN_MAX, sizeof *fds);
    int64_t left = end_ms - clock_ms();
    for (int r = 1; r < m->size; r++) /* these ranks send no more bytes, but may disconnect */
        fds[r] = (struct pollfd){.fd = m->ranks[r].fd, .events = POLLIN};
    fds[0] = (struct pollfd){.fd = m->server->listener, .events = POLLIN};
    for (int i = 0; i < UNKNOWN_MAX; i++)
        fds[m->size + i] = (struct pollfd){.fd = m->unknown[i].fd, .events = POLLIN};
    int n = poll(fds, (nfds_t)m->size + UNKNOWN_MAX,
                 left < 0         ? 0
                 : left < POLL_MS ? (int)left
                                  : POLL_MS);
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    int64_t now = clock_ms();
    for (int r = 1; r < m->size && !m->lost; r++)
        if (fds[r].revents)
            m->lost = r;
    for (int i = 0; i < UNKNOWN_MAX; i++) {
        struct peer *p = &m->unknown[i];
        if (fds[m->size + i].revents)
            read_peer(m, p);
        if (p->fd >= 0 && now - p->since_ms > HELLO_MS)
            disconnect(p);
    }
    if (fds[0].revents)
        accept_peers(m, now);
    return 0;
}

/* Fills in the node of each rank, if the rank itself or another rank on its node has sent it. */
static void locate_ranks(struct bootstrap_rank_location *locations, const struct round *m)
{
    for (int r = 0; r < m->size; r++) {
        const struct bootstrap_hello *h = r ? &m->ranks[r].hello : m->server->mine;
        locations[r].connected = r == 0 || m->ranks[r].fd >= 0;
        for (uint32_t k = 0; locations[r].connected && k < h->local_size; k++)
            if (h->first + k < h->size)
                snprintf(locations[h->first + k].node, BOOTSTRAP_NODE_BYTES, "%s", h->node);
    }
}

static int missing_error(const struct round *m, struct err *e)
{
    AUTO(strbuf) struct strbuf names = {0};
    AUTO(free)
    struct bootstrap_rank_location *locations = xcalloc((size_t)m->size, sizeof *locations);
    locate_ranks(locations, m);
    bootstrap_missing(&names, locations, m->size);
    const char *away = m->rejected[0] ? "; rejected: " : "";
    if (m->lost)
        err_set(e, -ETIMEDOUT, "rank %d on node %s exited or timed out; missing: %s%s%s", m->lost,
                m->ranks[m->lost].hello.node, names.len ? strbuf_str(&names) : "no other", away,
                m->rejected);
    else
        err_set(e, -ETIMEDOUT, "not all ranks connected within %lld ms; missing: %s%s%s",
                (long long)m->server->timeout_ms, strbuf_str(&names), away, m->rejected);
    return err_hint(e, "check the missing ranks; open_ms raises the deadline");
}

static void append_put(struct strbuf *all, const char *put, size_t len)
{
    uint32_t bytes = (uint32_t)len;
    strbuf_add(all, &bytes, sizeof bytes);
    strbuf_add(all, put, len);
}

int bootstrap_server_accept_all(struct strbuf *all, const struct bootstrap_server *s, struct err *e)
{
    struct round m = {.server = s, .size = (int)s->mine->size, .connected = 1};
    AUTO(free) struct peer *ranks = xcalloc((size_t)m.size, sizeof *ranks);
    AUTO(free) struct peer *unknown = xcalloc(UNKNOWN_MAX, sizeof *unknown);
    m.ranks = ranks;
    m.unknown = unknown;
    for (int r = 0; r < m.size; r++)
        ranks[r].fd = -1;
    for (int i = 0; i < UNKNOWN_MAX; i++)
        unknown[i].fd = -1;
    struct err why = {0};
    int rc = 0;
    int64_t end = clock_ms() + s->timeout_ms;
    while (rc == 0 && m.connected < m.size) {
        rc = poll_once(&m, end);
        if (rc < 0)
            err_set(&why, rc, "waiting for the ranks: %s", strerror(-rc));
        else if (m.connected < m.size && (m.lost || clock_ms() >= end))
            rc = missing_error(&m, &why);
    }
    append_put(all, strbuf_str(s->put), s->put->len);
    for (int r = 1; r < m.size && rc == 0; r++)
        append_put(all, ranks[r].put, ranks[r].hello.bytes);
    for (int r = 1; r < m.size; r++)
        if (ranks[r].fd >= 0)
            answer(&ranks[r], rc, rc ? why.text : strbuf_str(all),
                   rc ? strlen(why.text) : all->len);
    for (int r = 0; r < m.size; r++)
        disconnect(&ranks[r]);
    for (int i = 0; i < UNKNOWN_MAX; i++)
        disconnect(&unknown[i]);
    if (e && rc < 0)
        *e = why;
    return rc;
}
