#include "launcher/guardian/guardian_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "common/clock.h"
#include "common/log.h"
#include "launcher/guardian/guardian_msg.h"
#include "launcher/guardian/process_tree.h"
#include "launcher/guardian/spawn.h"
#include "launcher/node/session_dir.h"

enum {
    LIFELINE = 3,          /* where the socket is put */
    SAID_MAX = 8,          /* messages that wait to be sent at once */
    ROUND_MS_MAX = 200,    /* between rounds against what does not die */
    END_ROUND_MS_MAX = 20, /* the same once the launcher is gone */
    END_LIMIT_MS = 5000    /* then what SIGKILL does not end (a hung disk) is left */
};

/* A rank lives until it is reaped; its entry stays until the job is cleared, since its pid is the
 * name of the process group that it leaves behind. */
struct rank {
    struct rank *next;
    int number;
    pid_t pid;
    bool alive;
};

struct job {
    struct job *next;
    uint32_t number;
    char *mark;    /* DROVER_JOB_ID; NULL: none */
    uint64_t born; /* process_tree_clock() before its first rank */
    bool clearing;
    struct rank *ranks;
    struct process_tree seen; /* what the last round of clearing has killed */
};

struct guardian_state {
    int sock;
    int sigchld_fd;
    struct job *jobs; /* newest first */
    struct guardian_msg_buffer in;
    struct strbuf said; /* what is to be told */
};

/* ---- telling ----------------------------------------------------------------------------- */

/* Sends what there is to tell. Waits where the launcher is slow to read: it does not wait for us.
 * Where it is gone, the loop learns that next. */
static void say(struct guardian_state *s)
{
    const char *at = s->said.data;
    for (size_t left = s->said.len; left > 0;) {
        ssize_t n = send(s->sock, at, left, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        at += n;
        left -= (size_t)n;
    }
    strbuf_reset(&s->said);
}

/* Some at a time while there is more to do: each wakes the launcher, on a processor that ranks
 * could have. The loop says what is left before it waits. */
static void tell(struct guardian_state *s, struct guardian_msg_head h)
{
    strbuf_add(&s->said, &h, sizeof h);
    if (s->said.len >= SAID_MAX * sizeof h)
        say(s);
}

static void tell_not_started(struct guardian_state *s, uint32_t job, int rank, int error, int step)
{
    tell(s, (struct guardian_msg_head){.type = GUARDIAN_MSG_NOT_STARTED,
                                       .job = job,
                                       .rank = rank,
                                       .value = error,
                                       .detail = step});
}

/* ---- jobs and ranks ---------------------------------------------------------------------- */

static struct job *job_find(const struct guardian_state *s, uint32_t number)
{
    struct job *j = s->jobs;
    while (j && j->number != number)
        j = j->next;
    return j;
}

/* The job, made with its first rank. */
static struct job *job_get(struct guardian_state *s, uint32_t number, char *const *env)
{
    static const char name[] = "DROVER_JOB_ID=";
    struct job *j = job_find(s, number);
    if (j)
        return j;
    j = xzalloc(sizeof *j);
    j->number = number;
    j->born = process_tree_clock();
    for (; *env && !j->mark; env++)
        if (strncmp(*env, name, sizeof name - 1) == 0)
            j->mark = xstrdup(*env + sizeof name - 1);
    j->next = s->jobs;
    s->jobs = j;
    return j;
}

static void job_drop(struct guardian_state *s, struct job *j)
{
    struct job **at = &s->jobs;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    while (j->ranks) {
        struct rank *r = j->ranks;
        j->ranks = r->next;
        free(r);
    }
    process_tree_kill_all(&j->seen);
    free(j->mark);
    free(j);
}

/* The living rank with this pid. */
static struct rank *rank_by_pid(const struct guardian_state *s, pid_t pid, struct job **of)
{
    for (struct job *j = s->jobs; j; j = j->next)
        for (struct rank *r = j->ranks; r; r = r->next)
            if (r->alive && r->pid == pid) {
                *of = j;
                return r;
            }
    return NULL;
}

/* ---- clearing ---------------------------------------------------------------------------- */

/* Whose an orphan is: it was seen below the job's ranks, or carries the job's mark, or is in a
 * group or session that a rank of the job has led. NULL: nothing tells. -EAGAIN: not yet. */
static int owner_of(const struct job **owner, const struct guardian_state *s,
                    const struct process_tree_proc *w)
{
    const struct job *j = s->jobs;
    while (j && !process_tree_has(&j->seen, w))
        j = j->next;
    if (!j) {
        AUTO(free) char *mark = NULL;
        int rc = process_tree_env(&mark, w->pid, "DROVER_JOB_ID");
        if (rc < 0)
            return rc;
        j = mark ? s->jobs : NULL;
        while (j && !(j->mark && strcmp(j->mark, mark) == 0))
            j = j->next;
    }
    for (const struct job *of = s->jobs; of && !j; of = of->next)
        for (const struct rank *r = of->ranks; r && !j; r = r->next)
            if (w->group == r->pid || w->session == r->pid)
                j = of;
    *owner = j;
    return 0;
}

/* 1 where our child goes with the job (NULL: with all), 0 where not, or -errno where that cannot be
 * told yet. An orphan of which nobody knows goes with the last of the jobs that were there when it
 * was born. */
static int goes_with(const struct guardian_state *s, const struct job *j, pid_t child)
{
    struct job *of;
    if (!j)
        return 1;
    if (rank_by_pid(s, child, &of))
        return of == j;
    struct process_tree_proc w;
    const struct job *owner = NULL;
    int rc = process_tree_read(&w, child);
    if (rc == 0)
        rc = owner_of(&owner, s, &w);
    /* What ends shows nothing any more; its own children come to us, and are to be seen first. */
    if (rc == 0 && !owner && process_tree_is_dead(child))
        return -EAGAIN;
    if (rc < 0)
        return rc == -ESRCH ? 0 : rc;
    if (owner)
        return owner == j;
    for (const struct job *k = s->jobs; k; k = k->next)
        if (k != j && !k->clearing && k->born <= w.start)
            return 0;
    return 1;
}

/* How many of our children go with the job, or may; those that do are killed where asked. Unreaped,
 * they keep their pids. */
static int children_of_job(const struct guardian_state *s, const struct job *j, bool kill_them)
{
    AUTO(free) pid_t *pids = NULL;
    int n = process_tree_children(&pids), found = n < 0; /* unknown: look again later */
    for (int i = 0; i < n; i++) {
        struct job *of;
        int goes = goes_with(s, j, pids[i]);
        int rc = goes > 0 ? kill(pids[i], kill_them ? SIGKILL : 0) : 0;
        /* An orphan that we may not kill (set-user-ID) we cannot wait for. */
        found += goes && (rc == 0 || errno != EPERM || rank_by_pid(s, pids[i], &of));
    }
    return found;
}

/* One round against a job (NULL: against all). Returns false when nothing was left of it: all that
 * a job has is a child of ours, or below one. */
static bool clear_round(const struct guardian_state *s, struct job *j)
{
    if (children_of_job(s, j, false) == 0)
        return false;
    struct process_tree w = {0};
    if (process_tree_scan(&w) == 0) {
        for (size_t i = 0; i < w.count; i++)
            w.all[i].marked = w.all[i].parent == getpid() && goes_with(s, j, w.all[i].pid) > 0;
        process_tree_select_below(&w);
        process_tree_kill_selected(&w);
        process_tree_keep_selected(&w);
    }
    if (j) {
        process_tree_kill_all(&j->seen);
        j->seen = w;
    } else {
        process_tree_kill_all(&w);
    }
    children_of_job(s, j, true); /* once more: who was born during the scan is here now */
    return true;
}

/* Returns whether a job is still to be cleared. */
static bool clear_jobs(struct guardian_state *s)
{
    bool more = false;
    for (struct job *j = s->jobs, *next; j; j = next) {
        next = j->next;
        if (!j->clearing)
            continue;
        if (clear_round(s, j)) {
            more = true;
            continue;
        }
        tell(s, (struct guardian_msg_head){.type = GUARDIAN_MSG_CLEARED, .job = j->number});
        job_drop(s, j);
    }
    return more;
}

/* ---- ends -------------------------------------------------------------------------------- */

static bool any_alive(const struct job *j)
{
    const struct rank *r = j->ranks;
    while (r && !r->alive)
        r = r->next;
    return r;
}

/* Those that are no ranks are orphans that came to us. */
static void on_ended(struct guardian_state *s, pid_t pid, int status)
{
    struct job *j;
    struct rank *r = rank_by_pid(s, pid, &j);
    if (!r)
        return;
    r->alive = false;
    bool last = !j->clearing && !any_alive(j) && children_of_job(s, j, false) == 0;
    tell(s, (struct guardian_msg_head){.type = GUARDIAN_MSG_EXITED,
                                       .job = j->number,
                                       .rank = r->number,
                                       .value = status,
                                       .detail = last});
    if (last) {
        job_drop(s, j);
        say(s); /* who starts one job after another goes on meanwhile */
    }
}

/* Takes every child that has ended: first `first` (0: nobody), the others in the order in which
 * they were born, since nothing tells when they died. Returns false when no child is left at all.
 */
static bool reap(struct guardian_state *s, pid_t first)
{
    int status;
    pid_t pid;
    if (first > 0 && waitpid(first, &status, WNOHANG) == first)
        on_ended(s, first, status);
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        on_ended(s, pid, status);
    return pid == 0;
}

/* Returns who died first: while a SIGCHLD is pending the kernel drops those that follow (signal(7),
 * "standard signals do not queue"). 0: nobody. */
static pid_t drain_sigchld(const struct guardian_state *s)
{
    struct signalfd_siginfo info[8];
    pid_t first = 0;
    while (read(s->sigchld_fd, info, sizeof info) > 0)
        first = first ? first : (pid_t)info[0].ssi_pid;
    return first;
}

/* ---- what the launcher says -------------------------------------------------------------- */

static void on_spawn(struct guardian_state *s, const struct guardian_msg_head *h, char *payload,
                     const struct guardian_msg_fds *fds)
{
    struct guardian_rank want;
    AUTO(free) char **words = NULL;
    int rc = guardian_msg_decode_rank(&want, &words, h, payload, fds);
    if (rc < 0) {
        tell_not_started(s, h->job, h->rank, -rc, SPAWN_FORK);
        return;
    }
    struct job *j = job_get(s, h->job, want.env);
    struct rank *r = xzalloc(sizeof *r);
    r->number = h->rank;
    enum spawn_step step;
    rc = spawn_start(&r->pid, &want, &step);
    if (rc < 0) {
        free(r);
        tell_not_started(s, h->job, h->rank, -rc, (int)step);
        return;
    }
    r->alive = true;
    r->next = j->ranks;
    j->ranks = r;
    tell(s, (struct guardian_msg_head){
                .type = GUARDIAN_MSG_STARTED, .job = h->job, .rank = h->rank, .value = r->pid});
}

/* A rank that was not reaped still owns its pid, and so the number of its group. */
static void on_signal(const struct guardian_state *s, const struct guardian_msg_head *h)
{
    const struct job *j = job_find(s, h->job);
    for (const struct rank *r = j ? j->ranks : NULL; r; r = r->next)
        if (r->alive && (h->rank < 0 || h->rank == r->number))
            kill(-r->pid, h->value);
}

static void on_clear(struct guardian_state *s, const struct guardian_msg_head *h)
{
    struct job *j = job_find(s, h->job);
    if (j)
        j->clearing = true;
    else
        tell(s, (struct guardian_msg_head){.type = GUARDIAN_MSG_CLEARED, .job = h->job});
}

/* Reads once and does what was said. Negative when the launcher is gone. */
static int on_launcher(struct guardian_state *s)
{
    struct guardian_msg_head h;
    char *payload;
    struct guardian_msg_fds fds;
    int rc = guardian_msg_read(&s->in, s->sock);
    while (rc >= 0 && (rc = guardian_msg_recv(&s->in, &h, &payload, &fds)) == 1) {
        if (h.type == GUARDIAN_MSG_SPAWN)
            on_spawn(s, &h, payload, &fds);
        else if (h.type == GUARDIAN_MSG_SIGNAL)
            on_signal(s, &h);
        else if (h.type == GUARDIAN_MSG_CLEAR)
            on_clear(s, &h);
        guardian_msg_close_fds(&fds);
        pid_t died = drain_sigchld(s);
        if (died > 0)
            reap(s, died);
    }
    return rc;
}

/* ---- the loop ---------------------------------------------------------------------------- */

/* Until the launcher is gone. */
static void run(struct guardian_state *s)
{
    struct pollfd polls[] = {{.fd = s->sock, .events = POLLIN},
                             {.fd = s->sigchld_fd, .events = POLLIN}};
    int wait_ms = -1;
    for (;;) {
        int n = poll(polls, COUNT_OF(polls), s->said.len > 0 ? 0 : wait_ms);
        if (n < 0 && errno != EINTR)
            return;
        if (n == 0 && s->said.len > 0) {
            say(s);
            continue;
        }
        if (polls[0].revents & ~POLLIN) /* the other end is closed: what was asked is void */
            return;
        bool died = polls[1].revents != 0;
        if (died)
            reap(s, drain_sigchld(s));
        bool spoke = polls[0].revents & POLLIN;
        if (spoke && on_launcher(s) < 0)
            return;
        if (!clear_jobs(s))
            wait_ms = -1;
        else if (died || spoke || wait_ms < 0)
            wait_ms = 1;
        else
            wait_ms = wait_ms * 2 < ROUND_MS_MAX ? wait_ms * 2 : ROUND_MS_MAX;
    }
}

/* The launcher is gone: everything goes. Returns whether it did. */
static bool end_all(struct guardian_state *s)
{
    int64_t deadline = clock_ms() + END_LIMIT_MS;
    for (int wait_ms = 1; reap(s, 0); drain_sigchld(s)) {
        if (clock_ms() > deadline)
            return false;
        clear_round(s, NULL);
        struct pollfd p = {.fd = s->sigchld_fd, .events = POLLIN};
        int n = poll(&p, 1, wait_ms);
        wait_ms = n > 0 ? 1 : wait_ms * 2 < END_ROUND_MS_MAX ? wait_ms * 2 : END_ROUND_MS_MAX;
    }
    return true;
}

/* ---- the start --------------------------------------------------------------------------- */

/* Nothing of the launcher's stays but the lifeline, and stderr for those who debug. */
static void keep_only(int lifeline)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *level = getenv("DROVER_LOG");
    int quiet = level && strcmp(level, "debug") == 0 ? 2 : 3;
    int sock = fcntl(lifeline, F_DUPFD_CLOEXEC, LIFELINE + 1);
    for (int fd = 0; fd < quiet && null >= 0; fd++)
        dup2(null, fd);
    dup3(sock, LIFELINE, O_CLOEXEC);
    if (syscall(SYS_close_range, LIFELINE + 1, ~0U, 0) < 0) /* a kernel before 5.9 */
        for (int fd = LIFELINE + 1; fd < sysconf(_SC_OPEN_MAX); fd++)
            close(fd);
}

/* No signal that can be caught ends or stops the guardian: it ends with its lifeline. What the
 * launcher ignores is as usual here: the exits of children are not lost, and ranks inherit it. */
static int block_signals(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    spawn_default_signals();
    sigset_t blocked, children;
    sigfillset(&blocked);
    for (size_t i = 0; i < COUNT_OF(faults); i++)
        sigdelset(&blocked, faults[i]);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    return signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The guardian's parent. Where the guardian has not ended in good order, all that it had becomes
 * our child and is ended here: the launcher may have been killed at the same instant. Where it was
 * not, the lifeline, which we hold too, tells it when all that is done. */
static _Noreturn void keep(struct guardian_state *s, pid_t guardian)
{
    int status = -1;
    prctl(PR_SET_NAME, "drover-keeper");
    while (waitpid(guardian, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0)
        (void)end_all(s);       /* what it cannot end, the launcher tries */
    session_dir_remove_stale(); /* the launcher's, where it was killed */
    _exit(status != 0);
}

/* Out of the reach of the launcher's terminal, by which nobody asks a rank for a password. Not by
 * setsid(2): the kernel shares processors out by sessions first (sched(7), autogroup), and ranks
 * that wait for the PMIx server by sched_yield(2) would not make way for it. */
static void leave_terminal(void)
{
    setpgid(0, 0);
    int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
    if (terminal < 0)
        return;
    ioctl(terminal, TIOCNOTTY);
    close(terminal);
}

_Noreturn void guardian_process_run(int lifeline, bool kept)
{
    leave_terminal();
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* this is not inherited */
    keep_only(lifeline);
    struct guardian_state s = {.sock = LIFELINE, .sigchld_fd = block_signals()};
    pid_t guardian = s.sigchld_fd < 0 ? -1 : kept ? fork() : 0;
    if (guardian < 0) {
        log_error("guardian: %s: %s", s.sigchld_fd < 0 ? "signalfd" : "fork", strerror(errno));
        _exit(1);
    }
    if (guardian > 0)
        keep(&s, guardian);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, GUARDIAN_NAME);
    run(&s);
    _exit(end_all(&s) ? 0 : 1);
}
