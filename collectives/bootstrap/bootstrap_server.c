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
    STRANGERS_MAX = 64, /* connections that have not said who they are, at a time */
    HELLO_MS = 5000,    /* for that */
    ANSWER_MS = 5000,
    TURN_MS = 500,
};

struct guest {
    int fd; /* -1: none */
    int64_t since_ms;
    struct exchange_hello hello;
    size_t have; /* of hello, then of said */
    char *said;
};

struct meeting {
    const struct bootstrap_server *hub;
    int size, here;          /* ranks; of them have come */
    struct guest *ranks;     /* by rank; [0] stays empty */
    struct guest *strangers; /* STRANGERS_MAX */
    int lost;                /* a rank that came and went; 0: none has */
    char turned_away[160];   /* why the last of them was, if any */
};

static int wait_for(int fd, short what, int64_t end_ms)
{
    int64_t left = end_ms - clock_ms();
    struct pollfd p = {.fd = fd, .events = what};
    int n = left > 0 ? poll(&p, 1, (int)(left < 1000000 ? left : 1000000)) : 0;
    return n > 0 || (n < 0 && errno == EINTR) ? 0 : n < 0 ? -errno : -ETIMEDOUT;
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

static void leave(struct guest *g)
{
    if (g->fd >= 0)
        close(g->fd);
    free(g->said);
    *g = (struct guest){.fd = -1};
}

static void answer(const struct guest *g, int code, const char *bytes, size_t len)
{
    struct exchange_answer a = {EXCHANGE_MAGIC, code, (uint32_t)len};
    int64_t end = clock_ms() + ANSWER_MS;
    /* One that does not take its answer notices that itself. */
    if (bootstrap_server_send(g->fd, &a, sizeof a, end) == 0)
        (void)bootstrap_server_send(g->fd, bytes, len, end);
}

static void turn_away(struct meeting *m, struct guest *g, const char *why)
{
    snprintf(m->turned_away, sizeof m->turned_away, "%s", why);
    answer(g, -EPROTO, why, strlen(why));
    leave(g);
}

/* ---- who comes ---------------------------------------------------------------------------------
 */

static void take_in(struct meeting *m, int64_t now)
{
    int fd;
    while ((fd = accept4(m->hub->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct guest *place = NULL, *oldest = m->strangers;
        for (int i = 0; i < STRANGERS_MAX; i++) {
            struct guest *g = &m->strangers[i];
            if (g->fd < 0)
                place = g;
            else if (oldest->fd >= 0 && g->since_ms < oldest->since_ms)
                oldest = g;
        }
        if (!place) {
            leave(oldest);
            place = oldest;
        }
        *place = (struct guest){.fd = fd, .since_ms = now};
        struct exchange_greeting hi = {EXCHANGE_MAGIC, m->hub->mine->token};
        if (bootstrap_server_send(fd, &hi, sizeof hi, now) <
            0) /* it fits into any socket's buffer */
            leave(place);
    }
}

/* Gives a rank of this job its place, or an answer why it gets none. It has said everything: what
 * is closed with bytes unread loses its answer too. */
static void seat(struct meeting *m, struct guest *g)
{
    const struct exchange_hello *h = &g->hello, *mine = m->hub->mine;
    AUTO(strbuf) struct strbuf why = {0};
    if (h->size != mine->size || h->rank >= h->size)
        strbuf_printf(&why, "rank %u on node %s counts %u ranks, rank 0 on node %s %u", h->rank,
                      h->node, h->size, mine->node, mine->size);
    else if (h->rank == 0 || m->ranks[h->rank].fd >= 0)
        strbuf_printf(&why, "rank %u on node %s is there twice, also on node %s", h->rank, h->node,
                      h->rank ? m->ranks[h->rank].hello.node : mine->node);
    else if (h->round != mine->round)
        strbuf_printf(&why, "rank %u opens its communicator %u, rank 0 its %u", h->rank, h->round,
                      mine->round);
    if (why.len) {
        turn_away(m, g, strbuf_str(&why));
        return;
    }
    m->ranks[h->rank] = *g;
    *g = (struct guest){.fd = -1};
    m->here++;
}

/* More of a stranger's hello, and of what it has put. */
static void hear(struct meeting *m, struct guest *g)
{
    for (;;) {
        bool greeted = g->have >= sizeof g->hello;
        size_t at = greeted ? g->have - sizeof g->hello : g->have;
        size_t len = greeted ? g->hello.bytes : sizeof g->hello;
        if (greeted && at == len) {
            seat(m, g);
            return;
        }
        char *to = greeted ? g->said : (char *)&g->hello;
        ssize_t n = recv(g->fd, to + at, len - at, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            leave(g);
            return;
        }
        g->have += (size_t)n;
        if (g->have != sizeof g->hello)
            continue;
        const struct exchange_hello *h = &g->hello;
        if (h->magic != EXCHANGE_MAGIC || h->token != m->hub->mine->token ||
            h->bytes > EXCHANGE_SAID_MAX) { /* no rank of ours */
            leave(g);
            return;
        }
        g->hello.node[BOOTSTRAP_NODE_BYTES - 1] = '\0';
        g->said = xzalloc((size_t)h->bytes + 1);
    }
}

/* ---- a round -----------------------------------------------------------------------------------
 */

/* Waits for something to happen, TURN_MS at most. */
static int turn(struct meeting *m, int64_t end_ms)
{
    AUTO(free) struct pollfd *p = xcalloc((size_t)m->size + STRANGERS_MAX, sizeof *p);
    int64_t left = end_ms - clock_ms();
    for (int r = 1; r < m->size; r++) /* they say no more; but they may go */
        p[r] = (struct pollfd){.fd = m->ranks[r].fd, .events = POLLIN};
    p[0] = (struct pollfd){.fd = m->hub->listener, .events = POLLIN};
    for (int i = 0; i < STRANGERS_MAX; i++)
        p[m->size + i] = (struct pollfd){.fd = m->strangers[i].fd, .events = POLLIN};
    int n = poll(p, (nfds_t)m->size + STRANGERS_MAX,
                 left < 0         ? 0
                 : left < TURN_MS ? (int)left
                                  : TURN_MS);
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    int64_t now = clock_ms();
    for (int r = 1; r < m->size && !m->lost; r++)
        if (p[r].revents)
            m->lost = r;
    for (int i = 0; i < STRANGERS_MAX; i++) {
        struct guest *g = &m->strangers[i];
        if (p[m->size + i].revents)
            hear(m, g);
        if (g->fd >= 0 && now - g->since_ms > HELLO_MS)
            leave(g);
    }
    if (p[0].revents)
        take_in(m, now);
    return 0;
}

/* A rank's node: its own word, or that of one beside it. */
static void fill_seats(struct bootstrap_rank_location *seats, const struct meeting *m)
{
    for (int r = 0; r < m->size; r++) {
        const struct exchange_hello *h = r ? &m->ranks[r].hello : m->hub->mine;
        seats[r].here = r == 0 || m->ranks[r].fd >= 0;
        for (uint32_t k = 0; seats[r].here && k < h->local_size; k++)
            if (h->first + k < h->size)
                snprintf(seats[h->first + k].node, BOOTSTRAP_NODE_BYTES, "%s", h->node);
    }
}

static int not_all(const struct meeting *m, struct err *e)
{
    AUTO(strbuf) struct strbuf names = {0};
    AUTO(free) struct bootstrap_rank_location *seats = xcalloc((size_t)m->size, sizeof *seats);
    fill_seats(seats, m);
    bootstrap_missing(&names, seats, m->size);
    const char *away = m->turned_away[0] ? "; turned away: " : "";
    if (m->lost)
        err_set(e, -ETIMEDOUT, "rank %d on node %s has ended, or its time was up; missing: %s%s%s",
                m->lost, m->ranks[m->lost].hello.node, names.len ? strbuf_str(&names) : "no other",
                away, m->turned_away);
    else
        err_set(e, -ETIMEDOUT, "not every rank came here in %lld ms; missing: %s%s%s",
                (long long)m->hub->timeout_ms, strbuf_str(&names), away, m->turned_away);
    return err_hint(e, "see what the missing ranks do; a deadline can be raised by open_ms");
}

static void add(struct strbuf *all, const char *said, size_t len)
{
    uint32_t bytes = (uint32_t)len;
    strbuf_add(all, &bytes, sizeof bytes);
    strbuf_add(all, said, len);
}

int bootstrap_server_accept_all(struct strbuf *all, const struct bootstrap_server *h, struct err *e)
{
    struct meeting m = {.hub = h, .size = (int)h->mine->size, .here = 1};
    AUTO(free) struct guest *ranks = xcalloc((size_t)m.size, sizeof *ranks);
    AUTO(free) struct guest *strangers = xcalloc(STRANGERS_MAX, sizeof *strangers);
    m.ranks = ranks;
    m.strangers = strangers;
    for (int r = 0; r < m.size; r++)
        ranks[r].fd = -1;
    for (int i = 0; i < STRANGERS_MAX; i++)
        strangers[i].fd = -1;
    struct err why = {0};
    int rc = 0;
    int64_t end = clock_ms() + h->timeout_ms;
    while (rc == 0 && m.here < m.size) {
        rc = turn(&m, end);
        if (rc < 0)
            err_set(&why, rc, "waiting for the ranks: %s", strerror(-rc));
        else if (m.here < m.size && (m.lost || clock_ms() >= end))
            rc = not_all(&m, &why);
    }
    add(all, strbuf_str(h->said), h->said->len);
    for (int r = 1; r < m.size && rc == 0; r++)
        add(all, ranks[r].said, ranks[r].hello.bytes);
    for (int r = 1; r < m.size; r++)
        if (ranks[r].fd >= 0)
            answer(&ranks[r], rc, rc ? why.text : strbuf_str(all),
                   rc ? strlen(why.text) : all->len);
    for (int r = 0; r < m.size; r++)
        leave(&ranks[r]);
    for (int i = 0; i < STRANGERS_MAX; i++)
        leave(&strangers[i]);
    if (e && rc < 0)
        *e = why;
    return rc;
}
