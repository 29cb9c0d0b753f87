#include "launcher/pmi/pmi1_server.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "common/log.h"
#include "launcher/plan/env.h"
#include "launcher/pmi/pmi1.h"

enum { READ_BYTES = 4096, READS_PER_TURN = 16 };

struct connection {
    uv_poll_t poll;
    struct pmi1_server *owner;
    int fd; /* -1: never opened, or closed */
};

struct pmi1_server {
    uv_loop_t *loop;
    struct pmi1 *pmi1; /* NULL: this is a relay, which calls … */
    void (*received)(void *arg, int rank, const char *bytes, size_t len); /* … this */
    struct connection *connections;
    int ranks, open_handles;
    bool closed;
    struct pmix_server_events ev;
    void *arg;
};

static void free_server(struct pmi1_server *s)
{
    pmi1_free(s->pmi1);
    free(s->connections);
    free(s);
}

static void on_closed(uv_handle_t *h)
{
    struct pmi1_server *s = ((struct connection *)h->data)->owner;
    if (--s->open_handles == 0 && s->closed)
        free_server(s);
}

/* Closes the connection to a rank. */
static void disconnect(struct connection *c)
{
    if (c->fd < 0)
        return;
    uv_poll_stop(&c->poll);
    close(c->fd);
    c->fd = -1;
    uv_close((uv_handle_t *)&c->poll, on_closed);
}

static int rank_of(const struct connection *c)
{
    return (int)(c - c->owner->connections);
}

/* Reads once. Returns false if nothing is left to read. */
static bool read_some(struct connection *c)
{
    struct pmi1_server *s = c->owner;
    char bytes[READ_BYTES];
    ssize_t n;
    do {
        n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return false;
    struct err e = {0};
    if (n > 0 && s->received)
        s->received(s->arg, rank_of(c), bytes, (size_t)n);
    else if (n > 0 && pmi1_recv(s->pmi1, rank_of(c), bytes, (size_t)n, &e) < 0)
        log_warn("%s (PMI-1 of the rank ends)", e.text);
    if (n <= 0 || e.code < 0)
        disconnect(c);
    return c->fd >= 0;
}

static void on_readable(uv_poll_t *p, int status, int events)
{
    struct connection *c = p->data;
    for (int i = 0; i < READS_PER_TURN && read_some(c); i++)
        ;
}

/* A rank that does not read its answers is disconnected. */
void pmi1_server_send(struct pmi1_server *s, int rank, const char *text, size_t len)
{
    struct connection *c = &s->connections[rank];
    if (len == 0 ||
        (c->fd >= 0 && send(c->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)len))
        disconnect(c);
}

static void on_send(void *arg, int rank, const char *text, size_t len)
{
    pmi1_server_send(arg, rank, text, len);
}

static void on_joined(void *arg, int rank)
{
    struct pmi1_server *s = arg;
    s->ev.joined(s->arg, rank);
}

static void on_finalized(void *arg, int rank)
{
    struct pmi1_server *s = arg;
    s->ev.finalized(s->arg, rank);
}

static void on_aborted(void *arg, int rank, int code)
{
    struct pmi1_server *s = arg;
    s->ev.aborted(s->arg, rank, code);
}

static void on_spawns(void *arg, int rank)
{
    struct pmi1_server *s = arg;
    s->ev.spawns(s->arg, rank);
}

struct pmi1_server *pmi1_server_relay(uv_loop_t *loop, int ranks,
                                      void (*received)(void *arg, int rank, const char *bytes,
                                                       size_t len),
                                      void *arg)
{
    struct pmi1_server *s = xzalloc(sizeof *s);
    s->loop = loop;
    s->ranks = ranks;
    s->connections = xcalloc((size_t)ranks, sizeof *s->connections);
    for (int i = 0; i < ranks; i++)
        s->connections[i].fd = -1;
    s->received = received;
    s->arg = arg;
    return s;
}

struct pmi1_server *pmi1_server_open(uv_loop_t *loop, const struct plan *p,
                                     const struct pmix_server_events *ev, void *arg)
{
    static const struct pmi1_events pmi1_ev = {on_send, on_joined, on_finalized, on_aborted,
                                               on_spawns};
    struct pmi1_server *s = pmi1_server_relay(loop, p->world_size, NULL, arg);
    s->pmi1 = pmi1_new(p->job_id, s->ranks, NULL, &pmi1_ev, s);
    s->ev = *ev;
    return s;
}

void pmi1_server_close(struct pmi1_server *s)
{
    if (!s)
        return;
    s->closed = true;
    bool any = s->open_handles > 0;
    for (int i = 0; i < s->ranks; i++)
        disconnect(&s->connections[i]);
    if (!any)
        free_server(s);
}

int pmi1_server_rank(struct pmi1_server *s, int rank, int *rank_fd, char ***env, struct err *e)
{
    struct connection *c = &s->connections[rank];
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_set(e, -errno, "rank %d: PMI_FD: %s", rank, strerror(errno));
    AUTO(fd) int ours = ends[0];
    AUTO(fd) int theirs = ends[1];
    int rc = uv_poll_init(s->loop, &c->poll, ours);
    if (rc < 0)
        return err_set(e, rc, "rank %d: PMI_FD: %s", rank, uv_strerror(rc));
    s->open_handles++;
    c->poll.data = c;
    c->owner = s;
    c->fd = fd_take(&ours);
    uv_poll_start(&c->poll, UV_READABLE, on_readable);
    if (s->pmi1) {
        env_set(env, "PMI_RANK", "%d", rank);
        env_set(env, "PMI_SIZE", "%d", s->ranks);
    }
    *rank_fd = fd_take(&theirs);
    return 0;
}

void pmi1_server_drain(struct pmi1_server *s, int rank)
{
    struct connection *c = &s->connections[rank];
    while (c->fd >= 0 && read_some(c))
        ;
}
