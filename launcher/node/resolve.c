#include "launcher/node/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

enum { THREADS_MAX = 8 };

struct resolve {
    uv_poll_t poll;
    int fd;
    resolve_fn *found;
    void *arg;
};

/* What a thread has: its own end of the socket, its own copies, and every step-th name. */
struct share {
    int fd;
    size_t first, step;
    char **names;
};

struct answer {
    int i, status;
    struct addrinfo *found; /* handed over */
};

static void *look_up(void *arg)
{
    struct share *s = arg;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
    size_t n = strv_len(s->names);
    bool heard = true;
    for (size_t i = s->first; heard && i < n; i += s->step) {
        struct answer a = {.i = (int)i};
        a.status = getaddrinfo(s->names[i], "9", &hints, &a.found);
        heard = send(s->fd, &a, sizeof a, MSG_NOSIGNAL) == (ssize_t)sizeof a;
        if (!heard && a.status == 0)
            freeaddrinfo(a.found);
    }
    close(s->fd);
    strv_free(s->names);
    free(s);
    return NULL;
}

/* Signals are the loop's. */
static int begin(struct share *s)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&thread, NULL, look_up, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return -rc;
    pthread_detach(thread);
    return 0;
}

static int begin_all(int fd, char *const *names, struct err *e)
{
    size_t n = strv_len(names), step = n < THREADS_MAX ? n : THREADS_MAX;
    for (size_t i = 0; i < step; i++) {
        struct share *s = xzalloc(sizeof *s);
        *s = (struct share){fcntl(fd, F_DUPFD_CLOEXEC, 0), i, step, strv_copy(names)};
        int rc = s->fd < 0 ? -errno : begin(s);
        if (rc == 0)
            continue;
        auto_fd(&s->fd);
        strv_free(s->names);
        free(s);
        return err_set(e, rc, "look up the hosts: %s", strerror(-rc));
    }
    return 0;
}

/* 0 where the last thread has ended. */
static ssize_t take(const struct resolve *r, struct answer *a)
{
    return recv(r->fd, a, sizeof *a, MSG_DONTWAIT);
}

/* One a turn: the call may close us. */
static void on_answer(uv_poll_t *p, int status, int events)
{
    struct resolve *r = p->data;
    struct answer a;
    ssize_t n = take(r, &a);
    if (n == 0)
        uv_poll_stop(p);
    if (n <= 0)
        return;
    r->found(r->arg, a.i, a.status, a.found);
    if (a.status == 0)
        freeaddrinfo(a.found);
}

static void on_closed(uv_handle_t *h)
{
    struct resolve *r = h->data;
    struct answer a;
    shutdown(r->fd, SHUT_RDWR); /* no answer comes after the last that is taken */
    while (take(r, &a) > 0)
        if (a.status == 0)
            freeaddrinfo(a.found);
    close(r->fd);
    free(r);
}

void resolve_close(struct resolve *r)
{
    if (r)
        uv_close((uv_handle_t *)&r->poll, on_closed);
}

int resolve_open(struct resolve **out, uv_loop_t *loop, char *const *names, resolve_fn *found,
                 void *arg, struct err *e)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return err_set(e, -errno, "look up the hosts: %s", strerror(errno));
    AUTO(fd) int theirs = ends[1];
    struct resolve *r = xzalloc(sizeof *r);
    *r = (struct resolve){.fd = ends[0], .found = found, .arg = arg};
    uv_poll_init(loop, &r->poll, r->fd);
    r->poll.data = r;
    int rc = begin_all(theirs, names, e);
    if (rc < 0) {
        resolve_close(r);
        return rc;
    }
    uv_poll_start(&r->poll, UV_READABLE, on_answer);
    *out = r;
    return 0;
}
