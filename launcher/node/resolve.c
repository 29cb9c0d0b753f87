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

/* The state of a thread. It has its own end of the socket and its own copies of the names, and
 * looks up every step-th name. */
struct lookup_thread {
    int fd;
    size_t first, step;
    char **names;
};

struct answer {
    int i, status;
    struct addrinfo *found; /* the receiver frees it */
};

static void *run_lookups(void *arg)
{
    struct lookup_thread *s = arg;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM};
    size_t n = strv_len(s->names);
    bool delivered = true;
    for (size_t i = s->first; delivered && i < n; i += s->step) {
        struct answer a = {.i = (int)i};
        a.status = getaddrinfo(s->names[i], "9", &hints, &a.found);
        delivered = send(s->fd, &a, sizeof a, MSG_NOSIGNAL) == (ssize_t)sizeof a;
        if (!delivered && a.status == 0)
            freeaddrinfo(a.found);
    }
    close(s->fd);
    strv_free(s->names);
    free(s);
    return NULL;
}

/* Starts a thread in which all signals are blocked, since the loop handles them. */
static int start_thread(struct lookup_thread *s)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&thread, NULL, run_lookups, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return -rc;
    pthread_detach(thread);
    return 0;
}

static int start_threads(int fd, char *const *names, struct err *e)
{
    size_t n = strv_len(names), step = n < THREADS_MAX ? n : THREADS_MAX;
    for (size_t i = 0; i < step; i++) {
        struct lookup_thread *s = xzalloc(sizeof *s);
        *s = (struct lookup_thread){fcntl(fd, F_DUPFD_CLOEXEC, 0), i, step, strv_copy(names)};
        int rc = s->fd < 0 ? -errno : start_thread(s);
        if (rc == 0)
            continue;
        auto_fd(&s->fd);
        strv_free(s->names);
        free(s);
        return err_set(e, rc, "host name resolution: %s", strerror(-rc));
    }
    return 0;
}

/* Handles only one answer per loop iteration, since the callback may close the resolver. */
static void on_answer(uv_poll_t *p, int status, int events)
{
    struct resolve *r = p->data;
    struct answer a;
    ssize_t n = recv(r->fd, &a, sizeof a, MSG_DONTWAIT);
    if (n == 0) /* the last thread has ended */
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
    shutdown(r->fd, SHUT_RDWR); /* after this, threads can send no more answers */
    while (recv(r->fd, &a, sizeof a, MSG_DONTWAIT) > 0)
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
        return err_set(e, -errno, "host name resolution: %s", strerror(errno));
    AUTO(fd) int thread_end = ends[1];
    struct resolve *r = xzalloc(sizeof *r);
    *r = (struct resolve){.fd = ends[0], .found = found, .arg = arg};
    uv_poll_init(loop, &r->poll, r->fd);
    r->poll.data = r;
    int rc = start_threads(thread_end, names, e);
    if (rc < 0) {
        resolve_close(r);
        return rc;
    }
    uv_poll_start(&r->poll, UV_READABLE, on_answer);
    *out = r;
    return 0;
}
