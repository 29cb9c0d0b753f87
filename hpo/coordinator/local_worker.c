#include "hpo/coordinator/local_worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "common/clock.h"
#include "common/log.h"
#include "hpo/coordinator/local_worker_state.h"
#include "hpo/store/lockfile.h"
#include "hpo/worker/sched_batch.h"

enum {
    FAST_EXITS_MAX = 5, /* without a hello between them, or by the worker's own failure */
    STABLE_MS = 10000,  /* a failure after this time is not one of the start */
    RETRY_MS = 100,     /* doubled with each fast exit */
    LOCK_RETRY_MS = 20, /* for an owner that is about to write its pid, or to exit */
    NOTICE_MS = 3000,   /* without a hello, until the user is told which process is awaited */
    UNHEARD_MS = 2000   /* for a worker to connect, if it must be told to end */
};

struct local_worker {
    uv_loop_t *loop;
    const struct local_worker_opts *opts;
    const struct local_worker_events *ev;
    void *arg;
    uv_process_t child;
    uv_poll_t watch; /* its pidfd is readable once it has exited */
    uv_timer_t retry;
    bool child_open, watch_open;
    int handles; /* that are not closed yet */
    int pidfd;
    enum local_worker_state state;
    int fast_exits;
    int own_failures;   /* exits in a row by a failure of its own, soon after its start */
    int64_t started_ms; /* of the process that runs */
    bool freed;
    bool noticed;      /* the user was told */
    uint64_t waits_ms; /* since when a process has been awaited; 0: it is not */
};

/* Returns false if the event has no meaning in the present state. */
static bool apply(struct local_worker *w, enum local_worker_event ev)
{
    int next = states_step(&local_worker_states, (int)w->state, (int)ev, "worker on this host");
    if (next < 0)
        return false;
    w->state = (enum local_worker_state)next;
    if (w->state == LOCAL_WORKER_RELEASED)
        w->ev->released(w->arg);
    return true;
}

static void fail(struct local_worker *w, const struct err *e)
{
    (void)apply(w, LOCAL_WORKER_EV_FAILED);
    w->ev->failed(w->arg, e);
}

static void on_retry(uv_timer_t *t)
{
    struct local_worker *w = t->data;
    if (w->state == LOCAL_WORKER_ABSENT)
        local_worker_start(w);
    else
        (void)apply(w, LOCAL_WORKER_EV_SILENT);
}

static void retry_after(struct local_worker *w, uint64_t ms)
{
    uv_timer_start(&w->retry, on_retry, ms, 0);
}

struct local_worker *local_worker_new(uv_loop_t *loop, const struct local_worker_opts *opts,
                                      const struct local_worker_events *ev, void *arg)
{
    struct local_worker *w = xzalloc(sizeof *w);
    w->loop = loop;
    w->opts = opts;
    w->ev = ev;
    w->arg = arg;
    w->pidfd = -1;
    w->handles = 1;
    uv_timer_init(loop, &w->retry);
    w->retry.data = w;
    return w;
}

/* ---- its exit ------------------------------------------------------------------------------- */

/* Adds the last line of its log that is not a hint to the message. */
static void add_last_line(const struct local_worker *w, struct err *e)
{
    char tail[600], *line = NULL;
    AUTO(file) FILE *f = fopen(w->opts->log, "re");
    if (!f)
        return;
    if (fseek(f, -(long)(sizeof tail - 1), SEEK_END) < 0)
        rewind(f);
    size_t n = fread(tail, 1, sizeof tail - 1, f);
    tail[n] = 0;
    char *save = NULL;
    for (char *t = strtok_r(tail, "\n", &save); t; t = strtok_r(NULL, "\n", &save))
        line = strncmp(t, "  try: ", 7) == 0 ? line : t;
    if (line)
        err_set(e, e->code, "the worker on this host exits as soon as it is started: %s", line);
    err_hint(e, "its output is in %s", w->opts->log);
}

/* Reports the exit of the worker that last had the lock, which then counts as lost. It may have
 * exited while no coordinator ran. Reporting it twice does no harm. */
static void report_exit(struct local_worker *w, const struct lockfile_owner *last)
{
    if (last->note[0])
        w->ev->exited(w->arg, last->note);
}

static void give_up(struct local_worker *w, int code)
{
    struct err e = {0};
    struct lockfile_owner last = {0};
    if (lockfile_read_owner(&last, w->opts->lock, NULL) == 0 && !last.held)
        report_exit(w, &last);
    if (w->state == LOCAL_WORKER_RELEASED)
        return; /* its leftovers ended the sweep */
    err_set(&e, code, "the worker on this host exits as soon as it is started");
    add_last_line(w, &e);
    fail(w, &e);
}

static void on_exited(struct local_worker *w)
{
    if (!apply(w, LOCAL_WORKER_EV_EXITED) || w->state == LOCAL_WORKER_RELEASED)
        return;
    log_warn("the worker on this host has exited; starting it again");
    w->fast_exits++;
    int exits = w->fast_exits > w->own_failures ? w->fast_exits : w->own_failures;
    if (exits > FAST_EXITS_MAX)
        give_up(w, -ECHILD);
    else
        retry_after(w, exits == 1 ? 0 : (uint64_t)RETRY_MS << (exits - 2));
}

/* A handle has closed. After local_worker_free() the last one frees the object. */
static void closed(struct local_worker *w)
{
    w->handles--;
    if (!w->freed)
        on_exited(w);
    else if (w->handles == 0)
        free(w);
}

static void on_watch_closed(uv_handle_t *h)
{
    struct local_worker *w = h->data;
    close(w->pidfd);
    w->pidfd = -1;
    w->watch_open = false;
    closed(w);
}

static void on_pidfd(uv_poll_t *p, int status, int what)
{
    uv_close((uv_handle_t *)p, on_watch_closed);
}

static int watch(struct local_worker *w, pid_t pid)
{
    w->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (w->pidfd < 0)
        return -errno;
    int rc = uv_poll_init(w->loop, &w->watch, w->pidfd);
    if (rc < 0) {
        close(w->pidfd);
        w->pidfd = -1;
        return rc;
    }
    w->watch.data = w;
    w->watch_open = true;
    w->handles++;
    return uv_poll_start(&w->watch, UV_READABLE, on_pidfd);
}

/* ---- its start ------------------------------------------------------------------------------ */

static void on_child_closed(uv_handle_t *h)
{
    struct local_worker *w = h->data;
    w->child_open = false;
    closed(w);
}

/* A worker that this coordinator has started is reaped by the loop. */
static void on_child_exit(uv_process_t *p, int64_t status, int signal)
{
    struct local_worker *w = p->data;
    log_info("the worker on this host, process %d, has exited: status %d, signal %d", (int)p->pid,
             (int)status, signal);
    /* A worker that another process kills is started again as often as that happens. */
    bool by_itself = status != 0 && signal == 0 && clock_ms() - w->started_ms < STABLE_MS;
    w->own_failures = by_itself ? w->own_failures + 1 : 0;
    uv_close((uv_handle_t *)p, on_child_closed);
}

static int spawn(struct local_worker *w)
{
    AUTO(fd) int log = open(w->opts->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0)
        return -errno;
    char slots[16];
    snprintf(slots, sizeof slots, "%d", w->opts->slots);
    char *words[] = {
        "drover-hpo",          "worker", (char *)w->opts->endpoint,  "--places", slots, "--lock",
        (char *)w->opts->lock, "--left", (char *)w->opts->leftovers, NULL};
    AUTO(strv) char **args = strv_copy(words);
    for (char *const *a = w->opts->args; a && *a; a++)
        strv_push(&args, xstrdup(*a));
    uv_stdio_container_t stdio[3] = {{.flags = UV_IGNORE},
                                     {.flags = UV_INHERIT_FD, .data.fd = log},
                                     {.flags = UV_INHERIT_FD, .data.fd = log}};
    uv_process_options_t o = {.file = "/proc/self/exe",
                              .args = args,
                              .exit_cb = on_child_exit,
                              .flags = UV_PROCESS_DETACHED,
                              .stdio = stdio,
                              .stdio_count = 3};
    w->started_ms = clock_ms();
    sched_batch_end(); /* the worker begins it again, once its guardian has started */
    int rc = uv_spawn(w->loop, &w->child, &o);
    sched_batch_begin();
    w->child.data = w;
    w->child_open = true;
    w->handles++;
    if (rc < 0) /* the handle must be closed after a failure too */
        uv_close((uv_handle_t *)&w->child, on_child_closed);
    return rc;
}

static void start(struct local_worker *w, const struct lockfile_owner *last)
{
    report_exit(w, last);
    if (w->state == LOCAL_WORKER_RELEASED)
        return; /* its leftovers ended the sweep */
    int rc = spawn(w);
    struct err e = {0};
    if (rc == 0) {
        (void)apply(w, LOCAL_WORKER_EV_SPAWNED);
    } else {
        err_set(&e, rc, "cannot start the worker on this host: %s", strerror(-rc));
        fail(w, &e);
    }
}

void local_worker_start(struct local_worker *w)
{
    struct err e = {0};
    struct lockfile_owner o = {0};
    (void)apply(w, LOCAL_WORKER_EV_START);
    if (lockfile_read_owner(&o, w->opts->lock, &e) < 0) {
        fail(w, &e);
        return;
    }
    if (!o.held) {
        start(w, &o);
        return;
    }
    if (w->waits_ms == 0)
        w->waits_ms = uv_now(w->loop);
    int rc = o.pid > 0 ? watch(w, o.pid) : -ESRCH;
    if (rc == -ESRCH) {
        retry_after(w, LOCK_RETRY_MS);
    } else if (rc < 0) {
        err_set(&e, rc, "cannot watch the worker on this host, process %d: %s", (int)o.pid,
                strerror(-rc));
        fail(w, &e);
    } else {
        (void)apply(w, LOCAL_WORKER_EV_ATTACHED);
        log_info("attached to the worker of the last coordinator: process %d", (int)o.pid);
    }
}

void local_worker_reattach(struct local_worker *w)
{
    struct lockfile_owner o = {0};
    if (lockfile_read_owner(&o, w->opts->lock, NULL) == 0 && o.held && o.pid > 0 &&
        watch(w, o.pid) == 0) /* a worker that cannot be watched ends by itself, later */
        (void)apply(w, LOCAL_WORKER_EV_REATTACHED);
}

void local_worker_hello(struct local_worker *w, const char *id)
{
    struct lockfile_owner o = {0};
    if (states_next(&local_worker_states, (int)w->state, LOCAL_WORKER_EV_HELLO) < 0 ||
        lockfile_read_owner(&o, w->opts->lock, NULL) < 0 || strcmp(o.note, id) != 0)
        return;
    w->fast_exits = 0;
    (void)apply(w, LOCAL_WORKER_EV_HELLO);
}

bool local_worker_is_awaited(const struct local_worker *w)
{
    return w->state == LOCAL_WORKER_ABSENT || w->state == LOCAL_WORKER_STARTING ||
           w->state == LOCAL_WORKER_ATTACHED;
}

char *local_worker_take_notice(struct local_worker *w)
{
    struct lockfile_owner o = {0};
    uint64_t waited = w->waits_ms ? uv_now(w->loop) - w->waits_ms : 0;
    if (w->state == LOCAL_WORKER_CONNECTED || w->state == LOCAL_WORKER_ENDING)
        w->waits_ms = 0;
    if (waited < NOTICE_MS || w->waits_ms == 0 || w->noticed || w->child_open ||
        lockfile_read_owner(&o, w->opts->lock, NULL) < 0 || !o.held)
        return NULL;
    w->noticed = true;
    return xasprintf(
        "waiting for worker %s of an earlier coordinator, process %d on %s: it has not "
        "connected for %d s, and exits after 60 s without a coordinator; to end it "
        "now: kill -9 %d",
        o.note[0] ? o.note : "?", (int)o.pid, o.host, (int)(waited / 1000), (int)o.pid);
}

void local_worker_release(struct local_worker *w)
{
    bool starting = w->state == LOCAL_WORKER_STARTING;
    uv_timer_stop(&w->retry);
    (void)apply(w, LOCAL_WORKER_EV_RELEASE);
    if (starting)
        local_worker_kill(w); /* it has no trial yet */
    else if (w->state == LOCAL_WORKER_UNHEARD)
        retry_after(w, UNHEARD_MS);
}

void local_worker_kill(struct local_worker *w)
{
    if (w->watch_open)
        (void)syscall(SYS_pidfd_send_signal, w->pidfd, SIGKILL, NULL, 0); /* it may have exited */
    else if (w->child_open && !uv_is_closing((uv_handle_t *)&w->child))
        (void)uv_process_kill(&w->child, SIGKILL); /* not reaped yet: the pid is still its own */
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

void local_worker_free(struct local_worker *w)
{
    if (!w)
        return;
    w->freed = true;
    close_handle(&w->retry, on_retry_closed);
    if (w->watch_open)
        close_handle(&w->watch, on_watch_closed);
    if (w->child_open)
        close_handle(&w->child, on_child_closed);
}
