#include "launcher/guardian/guardian.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "common/log.h"
#include "launcher/guardian/guardian_msg.h"
#include "launcher/guardian/guardian_process.h"
#include "launcher/guardian/process_tree.h"
#include "launcher/guardian/spawn.h"

enum {
    ROUND_MS = 5,        /* between rounds against what a dead guardian has left */
    ROUNDS_MAX = 400,    /* then what SIGKILL does not end is left */
    STOP_LIMIT_MS = 8000 /* for the guardian's end; it gives up earlier by itself */
};

/* A message on its way out. */
struct out {
    struct out *next;
    struct strbuf bytes;
    size_t sent;
    struct guardian_msg_fds fds; /* duplicates of our own; go with the first byte */
};

/* A job of which something may run, for the day when the guardian is killed. */
struct known_job {
    struct known_job *next;
    uint32_t number;
    int ranks;  /* asked for, and not said to have ended */
    char *mark; /* DROVER_JOB_ID; NULL: none */
};

/* The handles on the loop; they outlive the guardian by a turn. */
struct watch {
    uv_poll_t poll;
    uv_timer_t rounds;
    int open;
    int awaited;        /* events of `poll` */
    struct guardian *g; /* NULL: detached */
    struct guardian_events ev;
    void *arg;
};

struct guardian {
    pid_t keeper; /* or the guardian itself */
    int sock;     /* -1: the guardian has ended */
    struct watch *watch;
    struct guardian_msg_buffer in;
    struct out *out, **out_end;
    struct known_job *jobs;
    bool left_some;           /* it ended, but not in good order */
    int rounds;               /* done against that */
    struct process_tree seen; /* what the last round has killed */
};

pid_t guardian_monitor_pid(const struct guardian *g)
{
    return g->keeper;
}

bool guardian_is(pid_t pid)
{
    char path[32], name[32] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, name, sizeof name - 1) > 0 && strcmp(name, GUARDIAN_NAME "\n") == 0;
}

/* ---- start ------------------------------------------------------------------------------- */

static int start(struct guardian **out, bool kept, struct err *e)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_set(e, -errno, "guardian: socketpair: %s", strerror(errno));
    AUTO(fd) int ours = ends[0];
    AUTO(fd) int its = ends[1];
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return err_set(e, -errno, "guardian: become subreaper: %s", strerror(errno));
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before); /* no handler of ours may run in it */
    pid_t pid = fork();
    int error = errno;
    if (pid == 0)
        guardian_process_run(its, kept);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0)
        return err_set(e, -error, "guardian: fork: %s", strerror(error));
    struct guardian *g = xzalloc(sizeof *g);
    g->keeper = pid;
    g->sock = fd_take(&ours);
    g->out_end = &g->out;
    *out = g;
    return 0;
}

int guardian_start(struct guardian **out, struct err *e)
{
    return start(out, true, e);
}

int guardian_start_unmonitored(struct guardian **out, struct err *e)
{
    return start(out, false, e);
}

/* ---- what goes out ----------------------------------------------------------------------- */

static void out_drop_first(struct guardian *g)
{
    struct out *o = g->out;
    g->out = o->next;
    if (!g->out)
        g->out_end = &g->out;
    guardian_msg_close_fds(&o->fds);
    strbuf_free(&o->bytes);
    free(o);
}

/* Sends a part of a message: bytes, or -errno. */
static ssize_t send_some(int sock, const struct out *o)
{
    union {
        char space[CMSG_SPACE(GUARDIAN_RANK_FDS * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {.iov_base = o->bytes.data + o->sent, .iov_len = o->bytes.len - o->sent};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (o->sent == 0 && o->fds.count > 0) {
        size_t bytes = (size_t)o->fds.count * sizeof(int);
        m.msg_control = control.space;
        m.msg_controllen = CMSG_SPACE(bytes);
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(c), o->fds.fd, bytes);
    }
    ssize_t n = sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    return n < 0 ? -errno : n;
}

/* Sends what the socket takes. Where the guardian is gone, the loop learns it by reading. */
static void flush(struct guardian *g)
{
    while (g->out && g->sock >= 0) {
        ssize_t n = send_some(g->sock, g->out);
        if (n == -EINTR)
            continue;
        if (n < 0)
            return;
        g->out->sent += (size_t)n;
        if (g->out->sent == g->out->bytes.len)
            out_drop_first(g);
        else
            guardian_msg_close_fds(&g->out->fds);
    }
}

static void on_socket(uv_poll_t *p, int status, int events);

/* Waits for what is to come: messages always, room where something waits for it. (To ask libuv for
 * what it does already costs two system calls.) */
static void await(struct guardian *g)
{
    int events = UV_READABLE | (g->out ? UV_WRITABLE : 0);
    if (!g->watch || g->sock < 0 || g->watch->awaited == events)
        return;
    g->watch->awaited = events;
    uv_poll_start(&g->watch->poll, events, on_socket);
}

/* Takes over the message. */
static void out_push(struct guardian *g, struct out *o)
{
    *g->out_end = o;
    g->out_end = &o->next;
    if (g->out == o) { /* or it is not its turn */
        flush(g);
        await(g);
    }
}

static void out_say(struct guardian *g, struct guardian_msg_head h)
{
    if (g->sock < 0)
        return; /* it has ended, and all its ranks with it */
    struct out *o = xzalloc(sizeof *o);
    strbuf_add(&o->bytes, &h, sizeof h);
    out_push(g, o);
}

/* ---- jobs -------------------------------------------------------------------------------- */

static struct known_job *job_find(const struct guardian *g, uint32_t number)
{
    struct known_job *j = g->jobs;
    while (j && j->number != number)
        j = j->next;
    return j;
}

/* A rank of the job is asked for. */
static void job_know(struct guardian *g, uint32_t number, char *const *env)
{
    static const char name[] = "DROVER_JOB_ID=";
    struct known_job *j = job_find(g, number);
    if (!j) {
        j = xzalloc(sizeof *j);
        j->number = number;
        for (; *env && !j->mark; env++)
            if (strncmp(*env, name, sizeof name - 1) == 0)
                j->mark = xstrdup(*env + sizeof name - 1);
        j->next = g->jobs;
        g->jobs = j;
    }
    j->ranks++;
}

static void job_forget(struct guardian *g, uint32_t number)
{
    for (struct known_job **at = &g->jobs; *at; at = &(*at)->next)
        if ((*at)->number == number) {
            struct known_job *j = *at;
            *at = j->next;
            free(j->mark);
            free(j);
            return;
        }
}

/* A rank has ended; `last`: the guardian had nothing of the job any more. Returns whether the job
 * is clear, and forgotten: no other rank of it was on its way. */
static bool job_rank_ended(struct guardian *g, uint32_t number, bool last)
{
    struct known_job *j = job_find(g, number);
    bool clear = j && --j->ranks == 0 && last;
    if (clear)
        job_forget(g, number);
    return clear;
}

/* Of a message that has to wait: the caller's descriptors become our own. */
static int keep_fds(struct guardian_msg_fds *f, int rank, struct err *e)
{
    for (int i = 0; i < f->count; i++) {
        int fd = fcntl(f->fd[i], F_DUPFD_CLOEXEC, 0);
        if (fd < 0) {
            int rc =
                err_set(e, -errno, "rank %d: descriptor %d: %s", rank, f->fd[i], strerror(errno));
            f->count = i;
            guardian_msg_close_fds(f);
            return rc;
        }
        f->fd[i] = fd;
    }
    return 0;
}

int guardian_spawn(struct guardian *g, uint32_t job, const struct guardian_rank *r, struct err *e)
{
    if (g->sock < 0)
        return err_set(e, -EPIPE, "rank %d: the guardian has ended", r->rank);
    if (!r->argv || !r->argv[0] || !r->env)
        return err_set(e, -EINVAL, "rank %d: no program or no environment", r->rank);
    struct out *o = xzalloc(sizeof *o);
    int rc = guardian_msg_encode_rank(&o->bytes, job, r, e);
    const int from[GUARDIAN_RANK_FDS] = {r->fds[0], r->fds[1], r->fds[2], r->report_fd, r->pmi_fd};
    for (int i = 0; i < GUARDIAN_RANK_FDS; i++)
        if (i < GUARDIAN_REPORT_FD || from[i] >= 0)
            o->fds.fd[o->fds.count++] = from[i];
    ssize_t n = rc < 0 || g->out ? 0 : send_some(g->sock, o);
    if (n > 0)
        o->fds.count = 0; /* they are on their way */
    else if (rc == 0)
        rc = keep_fds(&o->fds, r->rank, e);
    o->sent = n > 0 ? (size_t)n : 0;
    if (rc == 0)
        job_know(g, job, r->env);
    if (rc < 0 || o->sent == o->bytes.len) {
        strbuf_free(&o->bytes);
        free(o);
    } else {
        out_push(g, o);
    }
    return rc;
}

void guardian_signal(struct guardian *g, uint32_t job, int rank, int sig)
{
    out_say(g, (struct guardian_msg_head){
                   .type = GUARDIAN_MSG_SIGNAL, .job = job, .rank = rank, .value = sig});
}

void guardian_kill_tree(struct guardian *g, uint32_t job)
{
    out_say(g, (struct guardian_msg_head){.type = GUARDIAN_MSG_CLEAR, .job = job});
}

/* ---- when the guardian is gone ----------------------------------------------------------- */

/* 1 where a process below us came from the guardian: it was seen below one that did, or is in
 * another group of our session, as ranks are, or carries a job's mark. Our other children do
 * neither: 0. -errno where it cannot be told yet. */
static int came_from(const struct guardian *g, const struct process_tree_proc *w)
{
    if (process_tree_has(&g->seen, w) || (w->session == getsid(0) && w->group != getpgrp()))
        return 1;
    AUTO(free) char *mark = NULL;
    int rc = process_tree_env(&mark, w->pid, "DROVER_JOB_ID");
    for (const struct known_job *j = g->jobs; j && mark; j = j->next)
        if (j->mark && strcmp(j->mark, mark) == 0)
            return 1;
    return rc;
}

/* One round against what the guardian has left; g->left_some says whether there is to be another.
 */
static void clean_round(struct guardian *g)
{
    struct process_tree w = {0};
    g->left_some = ++g->rounds < ROUNDS_MAX;
    if (process_tree_scan(&w) < 0)
        return; /* unknown: look again */
    struct process_tree_proc *self = process_tree_find(&w, getpid());
    if (self)
        self->marked = true;
    process_tree_select_below(&w);
    if (self)
        self->marked = false;
    process_tree_keep_selected(&w);
    size_t left = 0;
    for (size_t i = 0; i < w.count; i++) {
        int came = came_from(g, &w.all[i]);
        w.all[i].marked = came > 0;
        left += came < 0;
    }
    process_tree_select_below(&w);
    process_tree_keep_selected(&w);
    process_tree_kill_selected(&w);
    for (size_t i = 0; i < w.count; i++)
        left += w.all[i].parent != getpid() || waitpid(w.all[i].pid, NULL, WNOHANG) == 0;
    g->left_some &= left > 0;
    process_tree_kill_all(&g->seen);
    g->seen = w;
}

/* The socket is at its end: makes sure that the process is. Its orphans are ours afterwards. */
static void bury(struct guardian *g)
{
    close(g->sock);
    g->sock = -1;
    while (g->out)
        out_drop_first(g);
    kill(g->keeper, SIGKILL); /* our child, not reaped: the pid is its own */
    int status = -1;
    while (waitpid(g->keeper, &status, 0) < 0 && errno == EINTR)
        ;
    g->left_some = status != 0;
}

static void on_round(uv_timer_t *t)
{
    struct watch *w = t->data;
    clean_round(w->g);
    if (w->g->left_some)
        return;
    uv_timer_stop(t);
    w->ev.gone(w->arg);
}

/* ---- what comes in ----------------------------------------------------------------------- */

static void dispatch(struct guardian *g, struct watch *w, const struct guardian_msg_head *h)
{
    bool clear;
    switch ((enum guardian_msg_type)h->type) {
    case GUARDIAN_MSG_STARTED:
        w->ev.started(w->arg, h->job, h->rank, h->value);
        break;
    case GUARDIAN_MSG_NOT_STARTED:
        (void)job_rank_ended(g, h->job, false);
        w->ev.not_started(w->arg, h->job, h->rank, h->value, spawn_step_name(h->detail));
        break;
    case GUARDIAN_MSG_EXITED:
        clear = job_rank_ended(g, h->job, h->detail);
        w->ev.exited(w->arg, h->job, h->rank, h->value, clear);
        break;
    case GUARDIAN_MSG_CLEARED:
        job_forget(g, h->job);
        w->ev.cleared(w->arg, h->job);
        break;
    default:
        log_warn("guardian: message of type %u dropped", h->type);
    }
}

/* Reads once and tells. Negative when the guardian is gone. The watcher may detach itself
 * meanwhile. */
static int read_some(struct guardian *g, struct watch *w)
{
    struct guardian_msg_head h;
    char *payload;
    struct guardian_msg_fds none;
    int rc = guardian_msg_read(&g->in, g->sock);
    while (rc >= 0 && w->g && (rc = guardian_msg_recv(&g->in, &h, &payload, &none)) == 1)
        dispatch(g, w, &h);
    return rc;
}

static void on_socket(uv_poll_t *p, int status, int events)
{
    struct watch *w = p->data;
    struct guardian *g = w->g;
    if (read_some(g, w) < 0) {
        log_debug("guardian %d is gone", (int)g->keeper);
        uv_poll_stop(&w->poll);
        bury(g);
        uv_timer_start(&w->rounds, on_round, 0, ROUND_MS);
        return;
    }
    if (!w->g)
        return;
    if (status < 0)
        w->awaited = 0; /* libuv has stopped to look */
    flush(g);
    await(g);
}

/* ---- attach, detach, stop ---------------------------------------------------------------- */

static void on_closed(uv_handle_t *h)
{
    struct watch *w = h->data;
    if (--w->open == 0)
        free(w);
}

int guardian_attach(struct guardian *g, uv_loop_t *loop, const struct guardian_events *ev,
                    void *arg, struct err *e)
{
    assert(!g->watch);
    if (g->sock < 0)
        return err_set(e, -EPIPE, "the guardian has ended");
    struct watch *w = xzalloc(sizeof *w);
    int rc = uv_poll_init(loop, &w->poll, g->sock);
    if (rc < 0) {
        free(w);
        return err_set(e, rc, "guardian: watch its socket: %s", uv_strerror(rc));
    }
    uv_timer_init(loop, &w->rounds);
    w->poll.data = w->rounds.data = w;
    w->open = 2;
    w->g = g;
    w->ev = *ev;
    w->arg = arg;
    g->watch = w;
    await(g);
    return 0;
}

void guardian_detach(struct guardian *g)
{
    struct watch *w = g->watch;
    if (!w)
        return;
    g->watch = NULL;
    w->g = NULL;
    uv_close((uv_handle_t *)&w->poll, on_closed);
    uv_close((uv_handle_t *)&w->rounds, on_closed);
}

/* Waits for the guardian's end, which the closed lifeline has asked for. (A kernel before 5.3 has
 * no pidfds: then the guardian is killed, and we end what is left.) */
static void wait_for_end(struct guardian *g)
{
    AUTO(fd) int fd = (int)syscall(SYS_pidfd_open, g->keeper, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n = -1;
    while (fd >= 0 && (n = poll(&p, 1, STOP_LIMIT_MS)) < 0 && errno == EINTR)
        ;
    if (n == 0)
        log_warn("guardian %d did not end in %d ms", (int)g->keeper, STOP_LIMIT_MS);
}

void guardian_shutdown(struct guardian *g)
{
    if (g && g->sock >= 0)
        shutdown(g->sock, SHUT_RDWR);
}

void guardian_stop(struct guardian *g)
{
    if (!g)
        return;
    guardian_detach(g);
    guardian_shutdown(g);
    if (g->sock >= 0) {
        wait_for_end(g);
        bury(g);
    }
    while (g->left_some) {
        clean_round(g);
        poll(NULL, 0, g->left_some ? ROUND_MS : 0);
    }
    while (g->jobs)
        job_forget(g, g->jobs->number);
    process_tree_kill_all(&g->seen);
    guardian_msg_buffer_free(&g->in);
    free(g);
}
