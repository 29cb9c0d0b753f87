#include "hpo/coordinator/local_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "common/log.h"
#include "common/sched_batch.h"
#include "hpo/store/lockfile.h"

enum {
    FAST_ENDS_MAX = 5, /* without a hello between them */
    RETRY_MS = 100,    /* doubled with each fast end */
    PATIENCE_MS = 20   /* for an owner that is about to write its name, or to let go */
};

struct local_worker {
    uv_loop_t *loop;
    const struct local_worker_opts *config;
    const struct local_worker_events *ev;
    void *arg;
    uv_process_t child;
    uv_poll_t watch; /* its pidfd is readable once it has ended */
    uv_timer_t retry;
    bool child_open, watch_open;
    int handles; /* not closed yet */
    int pidfd;
    pid_t pid; /* 0: none runs */
    int fast_ends;
    bool released, freed;
};

static void look(struct local_worker *l);

static void on_retry(uv_timer_t *t)
{
    look(t->data);
}

static void later(struct local_worker *l, uint64_t ms)
{
    uv_timer_start(&l->retry, on_retry, ms, 0);
}

struct local_worker *local_worker_new(uv_loop_t *loop, const struct local_worker_opts *c,
                                      const struct local_worker_events *ev, void *arg)
{
    struct local_worker *l = xzalloc(sizeof *l);
    l->loop = loop;
    l->config = c;
    l->ev = ev;
    l->arg = arg;
    l->pidfd = -1;
    l->handles = 1;
    uv_timer_init(loop, &l->retry);
    l->retry.data = l;
    return l;
}

/* ---- its end -------------------------------------------------------------------------------- */

/* The last line of its log, for the message. */
static void add_last_words(const struct local_worker *l, struct err *e)
{
    char tail[600], *line = NULL;
    AUTO(file) FILE *f = fopen(l->config->log, "re");
    if (!f)
        return;
    if (fseek(f, -(long)(sizeof tail - 1), SEEK_END) < 0)
        rewind(f);
    size_t n = fread(tail, 1, sizeof tail - 1, f);
    tail[n] = 0;
    char *save = NULL;
    for (char *t = strtok_r(tail, "\n", &save); t; t = strtok_r(NULL, "\n", &save))
        line = t;
    if (line)
        err_set(e, e->code, "the worker on this host ends as soon as it is started: %s", line);
    err_hint(e, "%s has what it wrote", l->config->log);
}

static void give_up(struct local_worker *l, int code)
{
    struct err e = {0};
    err_set(&e, code, "the worker on this host ends as soon as it is started");
    add_last_words(l, &e);
    l->released = true;
    l->ev->failed(l->arg, &e);
}

static void ended(struct local_worker *l)
{
    l->pid = 0;
    if (l->released) {
        l->ev->released(l->arg);
        return;
    }
    log_warn("the worker on this host has ended; it is started again");
    if (++l->fast_ends > FAST_ENDS_MAX)
        give_up(l, -ECHILD);
    else
        later(l, l->fast_ends == 1 ? 0 : (uint64_t)RETRY_MS << (l->fast_ends - 2));
}

/* One of the handles has closed. Frees with the last one after local_worker_free(). */
static void closed(struct local_worker *l)
{
    l->handles--;
    if (!l->freed)
        ended(l);
    else if (l->handles == 0)
        free(l);
}

static void on_watch_closed(uv_handle_t *h)
{
    struct local_worker *l = h->data;
    close(l->pidfd);
    l->pidfd = -1;
    l->watch_open = false;
    closed(l);
}

static void on_pidfd(uv_poll_t *p, int status, int what)
{
    uv_close((uv_handle_t *)p, on_watch_closed);
}

static int watch(struct local_worker *l, pid_t pid)
{
    l->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (l->pidfd < 0)
        return -errno;
    int rc = uv_poll_init(l->loop, &l->watch, l->pidfd);
    if (rc < 0) {
        close(l->pidfd);
        l->pidfd = -1;
        return rc;
    }
    l->watch.data = l;
    l->watch_open = true;
    l->handles++;
    l->pid = pid;
    return uv_poll_start(&l->watch, UV_READABLE, on_pidfd);
}

/* ---- its start ------------------------------------------------------------------------------ */

static void on_child_closed(uv_handle_t *h)
{
    struct local_worker *l = h->data;
    l->child_open = false;
    closed(l);
}

/* One that we started: the loop reaps it and tells. */
static void on_child_exit(uv_process_t *p, int64_t status, int signal)
{
    log_info("worker %d: status %d, signal %d", (int)p->pid, (int)status, signal);
    uv_close((uv_handle_t *)p, on_child_closed);
}

static int spawn(struct local_worker *l)
{
    AUTO(fd) int log = open(l->config->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (log < 0)
        return -errno;
    char places[16];
    snprintf(places, sizeof places, "%d", l->config->slots);
    char *args[] = {"drover-hpo",
                    "worker",
                    (char *)l->config->endpoint,
                    "--places",
                    places,
                    "--lock",
                    (char *)l->config->lock,
                    "--left",
                    (char *)l->config->left,
                    NULL};
    uv_stdio_container_t stdio[3] = {{.flags = UV_IGNORE},
                                     {.flags = UV_INHERIT_FD, .data.fd = log},
                                     {.flags = UV_INHERIT_FD, .data.fd = log}};
    uv_process_options_t o = {.file = "/proc/self/exe",
                              .args = args,
                              .exit_cb = on_child_exit,
                              .flags = UV_PROCESS_DETACHED,
                              .stdio = stdio,
                              .stdio_count = 3};
    sched_batch_end(); /* it begins itself, once it has started what trials come from */
    int rc = uv_spawn(l->loop, &l->child, &o);
    sched_batch_begin();
    l->child.data = l;
    l->child_open = true; /* also after a failure the handle has to be closed */
    l->handles++;
    if (rc == 0)
        l->pid = l->child.pid;
    return rc;
}

static void start(struct local_worker *l, const struct lockfile_owner *last)
{
    /* It may have ended while no coordinator looked; to say so twice does no harm. */
    if (last->note[0])
        l->ev->gone(l->arg, last->note);
    if (l->released)
        return; /* what it had left was the end of the sweep */
    int rc = spawn(l);
    if (rc == 0)
        return;
    struct err e = {0};
    err_set(&e, rc, "the worker on this host cannot be started: %s", strerror(-rc));
    l->released = true;
    l->ev->failed(l->arg, &e);
}

static void look(struct local_worker *l)
{
    struct err e = {0};
    struct lockfile_owner o = {0};
    if (lockfile_ask(&o, l->config->lock, &e) < 0) {
        l->released = true;
        l->ev->failed(l->arg, &e);
        return;
    }
    if (!o.held) {
        start(l, &o);
        return;
    }
    int rc = o.pid > 0 ? watch(l, o.pid) : -ESRCH;
    if (rc == -ESRCH) {
        later(l, PATIENCE_MS);
    } else if (rc < 0) {
        err_set(&e, rc, "worker %d of this host cannot be watched: %s", (int)o.pid, strerror(-rc));
        l->released = true;
        l->ev->failed(l->arg, &e);
    } else {
        log_info("the worker of an earlier coordinator is taken over: process %d", (int)o.pid);
    }
}

void local_worker_start(struct local_worker *l)
{
    look(l);
}

void local_worker_reattach(struct local_worker *l)
{
    struct lockfile_owner o = {0};
    if (lockfile_ask(&o, l->config->lock, NULL) == 0 && o.held && o.pid > 0)
        (void)watch(l, o.pid); /* one that cannot be watched ends by itself, later */
}

void local_worker_hello(struct local_worker *l, const char *id)
{
    struct lockfile_owner o = {0};
    if (l->fast_ends && lockfile_ask(&o, l->config->lock, NULL) == 0 && strcmp(o.note, id) == 0)
        l->fast_ends = 0;
}

void local_worker_release(struct local_worker *l)
{
    l->released = true;
    uv_timer_stop(&l->retry);
    if (l->pid == 0)
        l->ev->released(l->arg);
}

void local_worker_kill(struct local_worker *l)
{
    if (l->watch_open)
        (void)syscall(SYS_pidfd_send_signal, l->pidfd, SIGKILL, NULL, 0); /* may have ended */
    else if (l->pid > 0)
        (void)uv_process_kill(&l->child, SIGKILL); /* not reaped yet: the pid is its own */
}

/* ---- freeing -------------------------------------------------------------------------------- */

static void on_retry_closed(uv_handle_t *h)
{
    closed(h->data);
}

static void close_handle(void *h, uv_close_cb cb)
{
    if (!uv_is_closing(h))
        uv_close(h, cb);
}

void local_worker_free(struct local_worker *l)
{
    if (!l)
        return;
    l->freed = true;
    close_handle(&l->retry, on_retry_closed);
    if (l->watch_open)
        close_handle(&l->watch, on_watch_closed);
    if (l->child_open)
        close_handle(&l->child, on_child_closed);
}
