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
#include "launcher/node/limits.h"

enum {
    ROUND_MS = 5,        /* between rounds of killing what a dead guardian has left */
    ROUNDS_MAX = 400,    /* after these rounds, processes that SIGKILL does not end are given up */
    STOP_LIMIT_MS = 8000 /* time for the guardian's exit; the guardian gives up earlier by itself */
};

/* A message that is being sent. */
struct outgoing {
    struct outgoing *next;
    struct strbuf bytes;
    size_t sent;
    struct guardian_msg_fds fds; /* duplicates that this process owns; sent with the first byte */
};

/* A job that may have processes, in case the guardian is killed. */
struct known_job {
    struct known_job *next;
    uint32_t number;
    int ranks;  /* number of ranks that were requested and have not ended */
    char *mark; /* DROVER_JOB_ID; NULL: none */
};

/* The handles on the loop. They close one turn after the guardian is detached. */
struct watcher {
    uv_poll_t poll;
    uv_timer_t kill_timer;
    int open_handles;
    int poll_events;    /* events that `poll` polls for; 0: stopped */
    struct guardian *g; /* NULL: detached */
    struct guardian_events ev;
    void *arg;
};

struct guardian {
    pid_t monitor; /* pid of the monitor, or of the guardian if it has none */
    int sock;      /* -1: the guardian has exited */
    struct watcher *watcher;
    struct guardian_msg_buffer in;
    struct outgoing *out, **out_end;
    struct known_job *jobs;
    bool runs;                /* it has reported that it has started */
    bool may_have_left;       /* the guardian was killed, and processes of its jobs may be left */
    int kill_rounds;          /* number of rounds so far */
    struct process_tree seen; /* the processes that the last round has killed */
};

pid_t guardian_monitor_pid(const struct guardian *g)
{
    return g->monitor;
}

bool guardian_is(pid_t pid)
{
    char path[32], name[32] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, name, sizeof name - 1) > 0 && strcmp(name, GUARDIAN_NAME "\n") == 0;
}

/* ---- start ---------------------------------------------------------------------------------- */

static int start(struct guardian **out, struct guardian_process_opts opts, struct err *e)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
        err_set(e, -errno, "guardian: socketpair: %s", strerror(errno));
        return limits_explain(e, "");
    }
    AUTO(fd) int ours = ends[0];
    AUTO(fd) int theirs = ends[1];
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
        return err_set(e, -errno, "guardian: PR_SET_CHILD_SUBREAPER: %s", strerror(errno));
    sigset_t all, before;
    sigfillset(&all);
    /* No signal handler of this process may run in the child */
    sigprocmask(SIG_BLOCK, &all, &before);
    pid_t pid = fork();
    int error = errno;
    opts.lifeline = theirs;
    if (pid == 0)
        guardian_process_run(&opts);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) {
        err_set(e, -error, "guardian: fork: %s", strerror(error));
        return limits_explain(e, "");
    }
    struct guardian *g = xzalloc(sizeof *g);
    g->monitor = pid;
    g->sock = fd_take(&ours);
    g->out_end = &g->out;
    *out = g;
    return 0;
}

int guardian_start(struct guardian **out, struct err *e)
{
    return guardian_start_keeping(out, NULL, 0, e);
}

int guardian_start_keeping(struct guardian **out, const int *fds, int count, struct err *e)
{
    struct guardian_process_opts opts = {.monitored = true, .kept = fds, .kept_count = count};
    return start(out, opts, e);
}

int guardian_start_unmonitored(struct guardian **out, struct err *e)
{
    return start(out, (struct guardian_process_opts){.monitored = false}, e);
}

/* ---- messages to the guardian --------------------------------------------------------------- */

static void drop_first_outgoing(struct guardian *g)
{
    struct outgoing *o = g->out;
    g->out = o->next;
    if (!g->out)
        g->out_end = &g->out;
    guardian_msg_close_fds(&o->fds);
    strbuf_free(&o->bytes);
    free(o);
}

/* Sends a part of a message. Returns the bytes sent, or -errno. */
static ssize_t send_some(int sock, const struct outgoing *o)
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

/* Sends what the socket accepts. If the guardian has died, the loop notices when it reads. */
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
            drop_first_outgoing(g);
        else
            guardian_msg_close_fds(&g->out->fds);
    }
}

static void on_socket(uv_poll_t *p, int status, int events);

/* Polls for messages, and for space in the socket if a message waits for it. Does nothing if libuv
 * already polls for these events, since a new request costs two system calls. */
static void update_poll(struct guardian *g)
{
    int events = UV_READABLE | (g->out ? UV_WRITABLE : 0);
    if (!g->watcher || g->sock < 0 || g->watcher->poll_events == events)
        return;
    g->watcher->poll_events = events;
    uv_poll_start(&g->watcher->poll, events, on_socket);
}

/* Queues a message and takes it over. */
static void queue_outgoing(struct guardian *g, struct outgoing *o)
{
    *g->out_end = o;
    g->out_end = &o->next;
    if (g->out == o) { /* no earlier message waits */
        flush(g);
        update_poll(g);
    }
}

static void send_head(struct guardian *g, struct guardian_msg_head h)
{
    if (g->sock < 0)
        return; /* the guardian has exited, and all its ranks are dead */
    struct outgoing *o = xzalloc(sizeof *o);
    strbuf_add(&o->bytes, &h, sizeof h);
    queue_outgoing(g, o);
}

/* ---- jobs ----------------------------------------------------------------------------------- */

static struct known_job *find_job(const struct guardian *g, uint32_t number)
{
    struct known_job *j = g->jobs;
    while (j && j->number != number)
        j = j->next;
    return j;
}

/* Counts a rank that is requested for a job. */
static void count_requested(struct guardian *g, uint32_t number, char *const *env)
{
    static const char name[] = "DROVER_JOB_ID=";
    struct known_job *j = find_job(g, number);
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

static void forget_job(struct guardian *g, uint32_t number)
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

/* Counts a rank that has ended. `last` is true if the guardian has no other process of the job.
 * Returns true if the job is reaped and forgotten. This is not so if a request for another rank of
 * the job is on its way to the guardian. */
static bool count_ended(struct guardian *g, uint32_t number, bool last)
{
    struct known_job *j = find_job(g, number);
    bool reaped = j && --j->ranks == 0 && last;
    if (reaped)
        forget_job(g, number);
    return reaped;
}

/* Duplicates the caller's descriptors for a message that has to wait. */
static int duplicate_fds(struct guardian_msg_fds *f, int rank, struct err *e)
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
        return err_set(e, -EPIPE, "rank %d: the guardian has exited", r->rank);
    if (!r->argv || !r->argv[0] || !r->env)
        return err_set(e, -EINVAL, "rank %d: no program or no environment", r->rank);
    struct outgoing *o = xzalloc(sizeof *o);
    int rc = guardian_msg_encode_rank(&o->bytes, job, r, e);
    const int from[GUARDIAN_RANK_FDS] = {r->fds[0], r->fds[1], r->fds[2], r->report_fd, r->pmi_fd};
    for (int i = 0; i < GUARDIAN_RANK_FDS; i++)
        if (i < GUARDIAN_REPORT_FD || from[i] >= 0)
            o->fds.fd[o->fds.count++] = from[i];
    ssize_t n = rc < 0 || g->out ? 0 : send_some(g->sock, o);
    if (n > 0)
        o->fds.count = 0; /* the descriptors were sent */
    else if (rc == 0)
        rc = duplicate_fds(&o->fds, r->rank, e);
    o->sent = n > 0 ? (size_t)n : 0;
    if (rc == 0)
        count_requested(g, job, r->env);
    if (rc < 0 || o->sent == o->bytes.len) {
        strbuf_free(&o->bytes);
        free(o);
    } else {
        queue_outgoing(g, o);
    }
    return rc;
}

void guardian_signal(struct guardian *g, uint32_t job, int rank, int sig)
{
    send_head(g, (struct guardian_msg_head){
                     .type = GUARDIAN_MSG_SIGNAL, .job = job, .rank = rank, .value = sig});
}

void guardian_kill_tree(struct guardian *g, uint32_t job)
{
    send_head(g, (struct guardian_msg_head){.type = GUARDIAN_MSG_KILL_TREE, .job = job});
}

/* ---- after the guardian's death ------------------------------------------------------------- */

/* Returns 1 if the guardian has started this descendant, 0 if not, or -errno if that is not known
 * yet. The guardian has started a process that was seen below one of its processes, that is in
 * another group of the same POSIX session (as ranks are), or that has the mark of a job. Other
 * descendants have none of these properties. */
static int is_guardians(const struct guardian *g, const struct process_tree_proc *w)
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

/* Kills the processes of the dead guardian that a scan shows. Sets g->may_have_left to true if
 * another round must follow. */
static void kill_round(struct guardian *g)
{
    struct process_tree w = {0};
    g->may_have_left = ++g->kill_rounds < ROUNDS_MAX;
    if (process_tree_scan(&w) < 0)
        return; /* unknown: try again */
    struct process_tree_proc *self = process_tree_find(&w, getpid());
    if (self)
        self->marked = true;
    process_tree_select_below(&w);
    if (self)
        self->marked = false;
    process_tree_keep_selected(&w);
    size_t remaining = 0;
    for (size_t i = 0; i < w.count; i++) {
        int ours = is_guardians(g, &w.all[i]);
        w.all[i].marked = ours > 0;
        remaining += ours < 0;
    }
    process_tree_select_below(&w);
    process_tree_keep_selected(&w);
    process_tree_kill_selected(&w);
    for (size_t i = 0; i < w.count; i++)
        remaining += w.all[i].parent != getpid() || waitpid(w.all[i].pid, NULL, WNOHANG) == 0;
    g->may_have_left &= remaining > 0;
    process_tree_free(&g->seen);
    g->seen = w;
}

/* Kills and reaps the guardian, whose socket is closed. Its orphans become children of this
 * process. */
static void reap_guardian(struct guardian *g)
{
    close(g->sock);
    g->sock = -1;
    while (g->out)
        drop_first_outgoing(g);
    kill(g->monitor, SIGKILL); /* the child is not reaped, so its pid cannot be reused */
    int status = -1;
    while (waitpid(g->monitor, &status, 0) < 0 && errno == EINTR)
        ;
    g->may_have_left = status != 0;
}

static void on_round(uv_timer_t *t)
{
    struct watcher *w = t->data;
    kill_round(w->g);
    if (w->g->may_have_left)
        return;
    uv_timer_stop(t);
    w->ev.died(w->arg);
}

/* ---- messages of the guardian --------------------------------------------------------------- */

static void dispatch(struct guardian *g, struct watcher *w, const struct guardian_msg_head *h)
{
    bool reaped;
    switch ((enum guardian_msg_type)h->type) {
    case GUARDIAN_MSG_STARTED:
        w->ev.started(w->arg, h->job, h->rank, h->value);
        break;
    case GUARDIAN_MSG_NOT_STARTED:
        (void)count_ended(g, h->job, false);
        w->ev.not_started(w->arg, h->job, h->rank, h->value, spawn_step_name(h->detail));
        break;
    case GUARDIAN_MSG_EXITED:
        reaped = count_ended(g, h->job, h->detail);
        w->ev.exited(w->arg, h->job, h->rank, h->value, reaped);
        break;
    case GUARDIAN_MSG_REAPED:
        forget_job(g, h->job);
        w->ev.reaped(w->arg, h->job);
        break;
    default:
        log_warn("guardian: unexpected message of type %u (dropped)", h->type);
    }
}

/* Reads once and emits the events. An event may detach the watcher. Returns a negative number if
 * the guardian has died. */
static int read_some(struct guardian *g, struct watcher *w)
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
    struct watcher *w = p->data;
    struct guardian *g = w->g;
    if (read_some(g, w) < 0) {
        log_debug("guardian %d has died", (int)g->monitor);
        uv_poll_stop(&w->poll);
        reap_guardian(g);
        uv_timer_start(&w->kill_timer, on_round, 0, ROUND_MS);
        return;
    }
    if (!w->g)
        return;
    if (status < 0)
        w->poll_events = 0; /* libuv has stopped polling */
    flush(g);
    update_poll(g);
}

/* ---- attach, detach, stop ------------------------------------------------------------------- */

static void on_closed(uv_handle_t *h)
{
    struct watcher *w = h->data;
    if (--w->open_handles == 0)
        free(w);
}

/* Waits until the guardian runs. It has been forked long before this is called, so this does not
 * block in practice. */
static int await_start(struct guardian *g, struct err *e)
{
    struct guardian_start_report r;
    ssize_t n;
    while ((n = recv(g->sock, &r, sizeof r, MSG_WAITALL)) < 0 && errno == EINTR)
        ;
    if (n != sizeof r)
        return err_set(e, -EPIPE, "the guardian process was killed as it started");
    if (r.error) {
        err_set(e, -r.error, "guardian: %.*s: %s", (int)sizeof r.call, r.call, strerror(r.error));
        return limits_explain(e, "");
    }
    g->runs = true;
    return 0;
}

int guardian_attach(struct guardian *g, uv_loop_t *loop, const struct guardian_events *ev,
                    void *arg, struct err *e)
{
    assert(!g->watcher);
    if (g->sock < 0)
        return err_set(e, -EPIPE, "the guardian has exited");
    int rc = g->runs ? 0 : await_start(g, e);
    if (rc < 0)
        return rc;
    struct watcher *w = xzalloc(sizeof *w);
    rc = uv_poll_init(loop, &w->poll, g->sock);
    if (rc < 0) {
        free(w);
        return err_set(e, rc, "guardian: poll its socket: %s", uv_strerror(rc));
    }
    uv_timer_init(loop, &w->kill_timer);
    w->poll.data = w->kill_timer.data = w;
    w->open_handles = 2;
    w->g = g;
    w->ev = *ev;
    w->arg = arg;
    g->watcher = w;
    update_poll(g);
    return 0;
}

void guardian_detach(struct guardian *g)
{
    struct watcher *w = g->watcher;
    if (!w)
        return;
    g->watcher = NULL;
    w->g = NULL;
    uv_close((uv_handle_t *)&w->poll, on_closed);
    uv_close((uv_handle_t *)&w->kill_timer, on_closed);
}

/* Waits for the guardian's exit after its lifeline was closed. A kernel before 5.3 has no pidfds;
 * then this process kills the guardian and what the guardian leaves. */
static void wait_for_exit(struct guardian *g)
{
    AUTO(fd) int fd = (int)syscall(SYS_pidfd_open, g->monitor, 0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int n = -1;
    while (fd >= 0 && (n = poll(&p, 1, STOP_LIMIT_MS)) < 0 && errno == EINTR)
        ;
    if (n == 0)
        log_warn("guardian %d did not exit within %d ms", (int)g->monitor, STOP_LIMIT_MS);
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
        wait_for_exit(g);
        reap_guardian(g);
    }
    while (g->may_have_left) {
        kill_round(g);
        poll(NULL, 0, g->may_have_left ? ROUND_MS : 0);
    }
    while (g->jobs)
        forget_job(g, g->jobs->number);
    process_tree_free(&g->seen);
    guardian_msg_buffer_free(&g->in);
    free(g);
}
