#include "launcher/pmi/pmi1_server.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
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
    struct pmi1 *pmi1;
    struct connection *connections; /* per local rank */
    struct job_map *map;
    struct exchange *exchange; /* of a job with one node, else NULL */
    int open_handles;
    bool closed;
    struct rank_events ev;
    void *arg;
};

static void free_server(struct pmi1_server *s)
{
    pmi1_free(s->pmi1);
    exchange_free(s->exchange);
    job_map_free(s->map);
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

/* Returns the connection of a rank of this node. */
static struct connection *find_connection(struct pmi1_server *s, int rank)
{
    return &s->connections[job_map_index(s->map, rank)];
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
    int index = (int)(c - s->connections);
    if (n > 0 && pmi1_recv(s->pmi1, index, bytes, (size_t)n, &e) < 0)
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

/* ---- events of pmi1 ------------------------------------------------------------------------- */

/* A rank that does not read its answers is disconnected. */
static void on_send(void *arg, int rank, const char *text, size_t len)
{
    struct pmi1_server *s = arg;
    struct connection *c = &s->connections[rank];
    if (c->fd >= 0 && send(c->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)len)
        disconnect(c);
}

static void on_exchange(void *arg, const struct exchange_message *m)
{
    struct pmi1_server *s = arg;
    struct err e = {0};
    if (s->ev.exchange)
        s->ev.exchange(s->arg, m);
    else if (exchange_submit(s->exchange, m, clock_ms(), &e) < 0)
        log_warn("PMI-1: %s", e.text);
}

/* ---- the server ----------------------------------------------------------------------------- */

struct pmi1_server *pmi1_server_open(uv_loop_t *loop, const struct job_map *map,
                                     const struct rank_events *ev, void *arg)
{
    static const struct pmi1_events from_pmi1 = {on_send, on_exchange};
    static const struct exchange_events from_exchange = {.deliver = pmi1_server_deliver};
    struct pmi1_server *s = xzalloc(sizeof *s);
    s->loop = loop;
    s->map = job_map_copy(map);
    s->connections = xcalloc((size_t)map->local_count, sizeof *s->connections);
    for (int i = 0; i < map->local_count; i++)
        s->connections[i].fd = -1;
    s->pmi1 = pmi1_new(map, &from_pmi1, s, ev, arg);
    if (!ev->exchange)
        s->exchange = exchange_new(NULL, 0, s->map->rank_nodes, map->ranks, &from_exchange, s);
    s->ev = *ev;
    s->arg = arg;
    return s;
}

void pmi1_server_deliver(void *server, const struct exchange_message *m)
{
    const struct pmi1_server *s = server;
    pmi1_deliver(s->pmi1, m);
}

void pmi1_server_close(struct pmi1_server *s)
{
    if (!s)
        return;
    s->closed = true;
    bool any = s->open_handles > 0;
    for (int i = 0; i < s->map->local_count; i++)
        disconnect(&s->connections[i]);
    if (!any)
        free_server(s);
}

int pmi1_server_rank(struct pmi1_server *s, int rank, int *rank_fd, char ***env, struct err *e)
{
    struct connection *c = find_connection(s, rank);
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
    env_set(env, "PMI_RANK", "%d", rank);
    env_set(env, "PMI_SIZE", "%d", s->map->ranks);
    *rank_fd = fd_take(&theirs);
    return 0;
}

void pmi1_server_drain(struct pmi1_server *s, int rank)
{
    struct connection *c = find_connection(s, rank);
    while (c->fd >= 0 && read_some(c))
        ;
}
