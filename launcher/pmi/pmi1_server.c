#include "launcher/pmi/pmi1_server.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "common/log.h"
#include "launcher/plan/env.h"
#include "launcher/pmi/pmi1.h"

enum { READ_BYTES = 4096, READS_A_TURN = 16 };

struct line {
    uv_poll_t poll;
    struct pmi1_server *owner;
    int fd; /* -1: never opened, or cut off */
};

struct pmi1_server {
    uv_loop_t *loop;
    struct pmi1 *pmi1; /* NULL: somebody else's, who is … */
    void (*took)(void *arg, int rank, const char *bytes, size_t len); /* … reached by this */
    struct line *lines;
    int ranks, open_handles;
    bool closed;
    struct pmix_server_events ev;
    void *arg;
};

static void free_serve(struct pmi1_server *s)
{
    pmi1_free(s->pmi1);
    free(s->lines);
    free(s);
}

static void on_closed(uv_handle_t *h)
{
    struct pmi1_server *s = ((struct line *)h->data)->owner;
    if (--s->open_handles == 0 && s->closed)
        free_serve(s);
}

/* Nothing more is read of the rank, or said to it. */
static void cut_off(struct line *l)
{
    if (l->fd < 0)
        return;
    uv_poll_stop(&l->poll);
    close(l->fd);
    l->fd = -1;
    uv_close((uv_handle_t *)&l->poll, on_closed);
}

static int rank_of(const struct line *l)
{
    return (int)(l - l->owner->lines);
}

/* Returns false when nothing is there any more. */
static bool read_some(struct line *l)
{
    struct pmi1_server *s = l->owner;
    char bytes[READ_BYTES];
    ssize_t n;
    do {
        n = recv(l->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return false;
    struct err e = {0};
    if (n > 0 && s->took)
        s->took(s->arg, rank_of(l), bytes, (size_t)n);
    else if (n > 0 && pmi1_take(s->pmi1, rank_of(l), bytes, (size_t)n, &e) < 0)
        log_warn("%s: its PMI-1 ends", e.text);
    if (n <= 0 || e.code < 0)
        cut_off(l);
    return l->fd >= 0;
}

static void on_readable(uv_poll_t *p, int status, int events)
{
    struct line *l = p->data;
    for (int i = 0; i < READS_A_TURN && read_some(l); i++)
        ;
}

/* Who asks and asks and reads no answer is no client. */
void pmi1_server_send(struct pmi1_server *s, int rank, const char *text, size_t len)
{
    struct line *l = &s->lines[rank];
    if (len == 0 ||
        (l->fd >= 0 && send(l->fd, text, len, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)len))
        cut_off(l);
}

static void on_say(void *arg, int rank, const char *text, size_t len)
{
    pmi1_server_send(arg, rank, text, len);
}

static void on_joined(void *arg, int rank)
{
    struct pmi1_server *s = arg;
    s->ev.joined(s->arg, rank);
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
                                      void (*took)(void *arg, int rank, const char *bytes,
                                                   size_t len),
                                      void *arg)
{
    struct pmi1_server *s = xzalloc(sizeof *s);
    s->loop = loop;
    s->ranks = ranks;
    s->lines = xcalloc((size_t)ranks, sizeof *s->lines);
    for (int i = 0; i < ranks; i++)
        s->lines[i].fd = -1;
    s->took = took;
    s->arg = arg;
    return s;
}

struct pmi1_server *pmi1_server_open(uv_loop_t *loop, const struct plan *p,
                                     const struct pmix_server_events *ev, void *arg)
{
    static const struct pmi1_events says = {on_say, on_joined, on_aborted, on_spawns};
    struct pmi1_server *s = pmi1_server_relay(loop, p->world_size, NULL, arg);
    s->pmi1 = pmi1_new(p->job_id, s->ranks, NULL, &says, s);
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
        cut_off(&s->lines[i]);
    if (!any)
        free_serve(s);
}

int pmi1_server_rank(struct pmi1_server *s, int rank, int *its_end, char ***env, struct err *e)
{
    struct line *l = &s->lines[rank];
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_set(e, -errno, "rank %d's PMI_FD: %s", rank, strerror(errno));
    AUTO(fd) int ours = ends[0];
    AUTO(fd) int its = ends[1];
    int rc = uv_poll_init(s->loop, &l->poll, ours);
    if (rc < 0)
        return err_set(e, rc, "rank %d's PMI_FD: %s", rank, uv_strerror(rc));
    s->open_handles++;
    l->poll.data = l;
    l->owner = s;
    l->fd = fd_take(&ours);
    uv_poll_start(&l->poll, UV_READABLE, on_readable);
    if (s->pmi1) {
        env_set(env, "PMI_RANK", "%d", rank);
        env_set(env, "PMI_SIZE", "%d", s->ranks);
    }
    *its_end = fd_take(&its);
    return 0;
}

void pmi1_server_drain(struct pmi1_server *s, int rank)
{
    struct line *l = &s->lines[rank];
    while (l->fd >= 0 && read_some(l))
        ;
}
