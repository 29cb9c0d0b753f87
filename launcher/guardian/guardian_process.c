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

#include "common/clock.h"
#include "launcher/guardian/guardian_msg.h"
#include "launcher/guardian/process_tree.h"
#include "launcher/guardian/spawn.h"
#include "launcher/node/session_dir.h"

enum {
    LIFELINE = 3,          /* descriptor of the socket */
    BATCH_MAX = 8,         /* maximum number of messages that are sent together */
    ROUND_MS_MAX = 200,    /* between rounds of killing processes that do not die */
    END_ROUND_MS_MAX = 20, /* the same, after the launcher has died */
    /* After this time, processes that SIGKILL does not end (a hung disk) are given up */
    END_LIMIT_MS = 5000
};

/* A rank counts as alive until it is reaped. Its entry stays until the job is reaped, since the
 * rank's pid is also the number of the process group that it leaves behind. */
struct rank {
    struct rank *next;
    int number;
    pid_t pid;
    bool alive;
};

struct job {
    struct job *next;
    uint32_t number;
    char *mark;     /* DROVER_JOB_ID; NULL: none */
    uint64_t start; /* process_tree_clock() before the first rank was started */
    bool killing;
    struct rank *ranks;
    struct process_tree seen; /* the processes that the last round has killed */
};

struct guardian_state {
    int sock;
    int sigchld_fd;
    struct job *jobs; /* newest first */
    struct guardian_msg_buffer in;
    struct strbuf outgoing; /* messages that are not sent yet */
};

/* ---- messages to the launcher --------------------------------------------------------------- */

/* Sends the queued messages. Blocks while the launcher does not read, which is safe, since the
 * launcher never waits for the guardian. If the launcher has died, the loop notices it next. */
static void flush(struct guardian_state *s)
{
    const char *at = s->outgoing.data;
    for (size_t left = s->outgoing.len; left > 0;) {
        ssize_t n = send(s->sock, at, left, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            break;
        at += n;
        left -= (size_t)n;
    }
    strbuf_reset(&s->outgoing);
}

/* Queues a message. While the guardian has more work, several messages are sent together, since
 * each one wakes the launcher on a processor that ranks could use. The loop sends the rest before
 * it waits. */
static void queue(struct guardian_state *s, struct guardian_msg_head h)
{
    strbuf_add(&s->outgoing, &h, sizeof h);
    if (s->outgoing.len >= BATCH_MAX * sizeof h)
        flush(s);
}

static void queue_not_started(struct guardian_state *s, uint32_t job, int rank, int error, int step)
{
    queue(s, (struct guardian_msg_head){.type = GUARDIAN_MSG_NOT_STARTED,
                                        .job = job,
                                        .rank = rank,
                                        .value = error,
                                        .detail = step});
}

/* ---- jobs and ranks ------------------------------------------------------------------------- */

static struct job *find_job(const struct guardian_state *s, uint32_t number)
{
    struct job *j = s->jobs;
    while (j && j->number != number)
        j = j->next;
    return j;
}

/* Returns the job with this number. Creates it if the rank is the first one of the job. */
static struct job *get_job(struct guardian_state *s, uint32_t number, char *const *env)
{
    static const char name[] = "DROVER_JOB_ID=";
    struct job *j = find_job(s, number);
    if (j)
        return j;
    j = xzalloc(sizeof *j);
    j->number = number;
    j->start = process_tree_clock();
    for (; *env && !j->mark; env++)
        if (strncmp(*env, name, sizeof name - 1) == 0)
            j->mark = xstrdup(*env + sizeof name - 1);
    j->next = s->jobs;
    s->jobs = j;
    return j;
}

static void free_job(struct guardian_state *s, struct job *j)
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
    process_tree_free(&j->seen);
    free(j->mark);
    free(j);
}

/* Returns the rank that is alive and has this pid, or NULL. Sets `*of` to its job. */
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

/* ---- killing process trees ------------------------------------------------------------------ */

/* Finds the job of an orphan. The orphan was seen below the job's ranks, or has the job's mark, or
 * is in a group or session that a rank of the job has led. `*owner` is NULL if there is no such
 * job. Returns -EAGAIN if it is not known yet. */
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

/* Returns 1 if a child of the guardian belongs to the job, 0 if not, or -errno if that is not known
 * yet. If `j` is NULL, any job counts. An orphan of unknown origin belongs to the last of the jobs
 * that existed when it was started. */
static int belongs_to(const struct guardian_state *s, const struct job *j, pid_t child)
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
    /* A dying process does not show its environment any more. Its children become the guardian's
     * children, and must be examined first. */
    if (rc == 0 && !owner && process_tree_is_dead(child))
        return -EAGAIN;
    if (rc < 0)
        return rc == -ESRCH ? 0 : rc;
    if (owner)
        return owner == j;
    for (const struct job *k = s->jobs; k; k = k->next)
        if (k != j && !k->killing && k->start <= w.start)
            return 0;
    return 1;
}

/* Returns the number of the guardian's children that belong to the job, or may belong to it. If
 * `kill_them` is true, kills those that do. Their pids cannot be reused, since they are not
 * reaped. */
static int children_of_job(const struct guardian_state *s, const struct job *j, bool kill_them)
{
    AUTO(free) pid_t *pids = NULL;
    int n = process_tree_children(&pids), found = n < 0; /* unknown: try again later */
    for (int i = 0; i < n; i++) {
        struct job *of;
        int belongs = belongs_to(s, j, pids[i]);
        int rc = belongs > 0 ? kill(pids[i], kill_them ? SIGKILL : 0) : 0;
        /* The guardian does not wait for an orphan that it may not kill (set-user-ID). */
        found += belongs && (rc == 0 || errno != EPERM || rank_by_pid(s, pids[i], &of));
    }
    return found;
}

/* Kills the processes of a job that a scan shows; of all jobs if `j` is NULL. Returns false if no
 * process was left. Every process of a job is a descendant of the guardian. */
static bool kill_round(const struct guardian_state *s, struct job *j)
{
    if (children_of_job(s, j, false) == 0)
        return false;
    struct process_tree w = {0};
    if (process_tree_scan(&w) == 0) {
        for (size_t i = 0; i < w.count; i++)
            w.all[i].marked = w.all[i].parent == getpid() && belongs_to(s, j, w.all[i].pid) > 0;
        process_tree_select_below(&w);
        process_tree_kill_selected(&w);
        process_tree_keep_selected(&w);
    }
    if (j) {
        process_tree_free(&j->seen);
        j->seen = w;
    } else {
        process_tree_free(&w);
    }
    children_of_job(s, j, true); /* again: processes forked during the scan are visible now */
    return true;
}

/* Continues killing the jobs that must be killed. Returns true if any of them still has
 * processes. */
static bool kill_jobs(struct guardian_state *s)
{
    bool more = false;
    for (struct job *j = s->jobs, *next; j; j = next) {
        next = j->next;
        if (!j->killing)
            continue;
        if (kill_round(s, j)) {
            more = true;
            continue;
        }
        queue(s, (struct guardian_msg_head){.type = GUARDIAN_MSG_REAPED, .job = j->number});
        free_job(s, j);
    }
    return more;
}

/* ---- exits ---------------------------------------------------------------------------------- */

static bool any_alive(const struct job *j)
{
    const struct rank *r = j->ranks;
    while (r && !r->alive)
        r = r->next;
    return r;
}

/* Handles a child that has exited. A child that is not a rank was an orphan. */
static void on_child_exited(struct guardian_state *s, pid_t pid, int status)
{
    struct job *j;
    struct rank *r = rank_by_pid(s, pid, &j);
    if (!r)
        return;
    r->alive = false;
    bool last = !j->killing && !any_alive(j) && children_of_job(s, j, false) == 0;
    queue(s, (struct guardian_msg_head){.type = GUARDIAN_MSG_EXITED,
                                        .job = j->number,
                                        .rank = r->number,
                                        .value = status,
                                        .detail = last});
    if (last) {
        free_job(s, j);
        flush(s); /* the launcher may start its next job */
    }
}

/* Reaps every child that has exited. `first` (0: none) is reaped before the others. The others are
 * reaped in the order of their start, since the order of their deaths is unknown. Returns false if
 * no child is left. */
static bool reap(struct guardian_state *s, pid_t first)
{
    int status;
    pid_t pid;
    if (first > 0 && waitpid(first, &status, WNOHANG) == first)
        on_child_exited(s, first, status);
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        on_child_exited(s, pid, status);
    return pid == 0;
}

/* Returns the process that died first, or 0. Only the first death is known: while a SIGCHLD is
 * pending, the kernel drops further ones (signal(7), "standard signals do not queue"). */
static pid_t drain_sigchld(const struct guardian_state *s)
{
    struct signalfd_siginfo info[8];
    pid_t first = 0;
    while (read(s->sigchld_fd, info, sizeof info) > 0)
        first = first ? first : (pid_t)info[0].ssi_pid;
    return first;
}

/* ---- messages of the launcher --------------------------------------------------------------- */

static void on_spawn(struct guardian_state *s, const struct guardian_msg_head *h, char *payload,
                     const struct guardian_msg_fds *fds)
{
    struct guardian_rank request;
    AUTO(free) char **strings = NULL;
    int rc = guardian_msg_decode_rank(&request, &strings, h, payload, fds);
    if (rc < 0) {
        queue_not_started(s, h->job, h->rank, -rc, SPAWN_FORK);
        return;
    }
    struct job *j = get_job(s, h->job, request.env);
    struct rank *r = xzalloc(sizeof *r);
    r->number = h->rank;
    enum spawn_step step;
    rc = spawn_start(&r->pid, &request, &step);
    if (rc < 0) {
        free(r);
        queue_not_started(s, h->job, h->rank, -rc, (int)step);
        return;
    }
    r->alive = true;
    r->next = j->ranks;
    j->ranks = r;
    queue(s, (struct guardian_msg_head){
                 .type = GUARDIAN_MSG_STARTED, .job = h->job, .rank = h->rank, .value = r->pid});
}

/* Sends a signal to process groups. A rank that is not reaped still owns its pid, which is also the
 * number of its group. */
static void on_signal(const struct guardian_state *s, const struct guardian_msg_head *h)
{
    const struct job *j = find_job(s, h->job);
    for (const struct rank *r = j ? j->ranks : NULL; r; r = r->next)
        if (r->alive && (h->rank < 0 || h->rank == r->number))
            kill(-r->pid, h->value);
}

static void on_kill_tree(struct guardian_state *s, const struct guardian_msg_head *h)
{
    struct job *j = find_job(s, h->job);
    if (j)
        j->killing = true;
    else
        queue(s, (struct guardian_msg_head){.type = GUARDIAN_MSG_REAPED, .job = h->job});
}

/* Reads once and handles the messages. Returns a negative number if the launcher has died. */
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
        else if (h.type == GUARDIAN_MSG_KILL_TREE)
            on_kill_tree(s, &h);
        guardian_msg_close_fds(&fds);
        pid_t died = drain_sigchld(s);
        if (died > 0)
            reap(s, died);
    }
    return rc;
}

/* ---- the loop ------------------------------------------------------------------------------- */

/* Runs until the launcher has died. */
static void run(struct guardian_state *s)
{
    struct pollfd polls[] = {{.fd = s->sock, .events = POLLIN},
                             {.fd = s->sigchld_fd, .events = POLLIN}};
    int wait_ms = -1;
    for (;;) {
        int n = poll(polls, COUNT_OF(polls), s->outgoing.len > 0 ? 0 : wait_ms);
        if (n < 0 && errno != EINTR)
            return;
        if (n == 0 && s->outgoing.len > 0) {
            flush(s);
            continue;
        }
        /* The other end is closed, so its requests have no effect any more */
        if (polls[0].revents & ~POLLIN)
            return;
        bool died = polls[1].revents != 0;
        if (died)
            reap(s, drain_sigchld(s));
        bool has_message = polls[0].revents & POLLIN;
        if (has_message && on_launcher(s) < 0)
            return;
        if (!kill_jobs(s))
            wait_ms = -1;
        else if (died || has_message || wait_ms < 0)
            wait_ms = 1;
        else
            wait_ms = wait_ms * 2 < ROUND_MS_MAX ? wait_ms * 2 : ROUND_MS_MAX;
    }
}

/* Kills the processes of all jobs after the launcher has died. Returns false if a process does not
 * end. */
static bool kill_all(struct guardian_state *s)
{
    int64_t deadline = clock_ms() + END_LIMIT_MS;
    for (int wait_ms = 1; reap(s, 0); drain_sigchld(s)) {
        if (clock_ms() > deadline)
            return false;
        kill_round(s, NULL);
        struct pollfd p = {.fd = s->sigchld_fd, .events = POLLIN};
        int n = poll(&p, 1, wait_ms);
        wait_ms = n > 0 ? 1 : wait_ms * 2 < END_ROUND_MS_MAX ? wait_ms * 2 : END_ROUND_MS_MAX;
    }
    return true;
}

/* ---- the start ------------------------------------------------------------------------------ */

static void close_range_of(unsigned first, unsigned last)
{
    unsigned limit = (unsigned)sysconf(_SC_OPEN_MAX);
    if (first > last || syscall(SYS_close_range, first, last, 0) == 0)
        return;
    for (unsigned fd = first; fd <= last && fd < limit; fd++) /* a kernel before 5.9 */
        close((int)fd);
}

/* Closes all descriptors of the launcher except the lifeline and the kept ones, which get other
 * numbers. Also keeps stderr if DROVER_LOG is "debug". */
static void close_all_but(const struct guardian_process_opts *o)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *level = getenv("DROVER_LOG");
    int first_kept = level && strcmp(level, "debug") == 0 ? 2 : 3;
    AUTO(free) int *kept = xcalloc((size_t)o->kept_count, sizeof *kept);
    for (int i = 0; i < o->kept_count; i++) /* ascending: each gets the first free number */
        kept[i] = fcntl(o->kept[i], F_DUPFD_CLOEXEC, LIFELINE + 1);
    int sock = fcntl(o->lifeline, F_DUPFD_CLOEXEC, LIFELINE + 1);
    for (int fd = 0; fd < first_kept && null >= 0; fd++)
        dup2(null, fd);
    dup3(sock, LIFELINE, O_CLOEXEC);
    unsigned next = LIFELINE + 1;
    for (int i = 0; i < o->kept_count; i++) {
        if (kept[i] < 0)
            continue; /* too many files: the launcher's own descriptor has to suffice */
        close_range_of(next, (unsigned)kept[i] - 1);
        next = (unsigned)kept[i] + 1;
    }
    close_range_of(next, ~0U);
}

/* Blocks all signals except those of faults, since the guardian must end only with its lifeline.
 * Returns a descriptor that reports SIGCHLD. Signals that the launcher ignores get their default
 * action, so that exits of children are not lost and ranks inherit the defaults. */
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

/* Runs the monitor. If the guardian was killed, all its processes become children of the monitor.
 * The monitor kills them, since the launcher may have been killed at the same time. The monitor
 * holds a copy of the lifeline; so a launcher that still runs notices the guardian's death only
 * when this is done. */
static _Noreturn void monitor(struct guardian_state *s, pid_t guardian)
{
    int status = -1;
    prctl(PR_SET_NAME, "drover-monitor");
    while (waitpid(guardian, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0)
        (void)kill_all(s);      /* the launcher tries what this cannot kill */
    session_dir_remove_stale(); /* removes the launcher's directory if the launcher was killed */
    _exit(status != 0);
}

/* Leaves the launcher's terminal, so that a program in a rank cannot ask for a password there.
 * setsid(2) is not used: the kernel divides processors first between sessions (sched(7),
 * autogroup), and ranks that wait for the PMIx server with sched_yield(2) would not yield to it. */
static void leave_terminal(void)
{
    setpgid(0, 0);
    int terminal = open("/dev/tty", O_RDWR | O_CLOEXEC);
    if (terminal < 0)
        return;
    ioctl(terminal, TIOCNOTTY);
    close(terminal);
}

/* Sends the first bytes of this end; guardian_attach() waits for them. Ends the process if a call
 * has failed. If the launcher has closed its end already, run() notices that. */
static void report_start(int sock, struct guardian_start_report r)
{
    (void)!send(sock, &r, sizeof r, MSG_NOSIGNAL);
    if (r.error)
        _exit(1);
}

_Noreturn void guardian_process_run(const struct guardian_process_opts *o)
{
    leave_terminal();
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* children do not inherit this */
    pid_t guardian = o->monitored ? fork() : 0;
    if (guardian < 0)
        report_start(o->lifeline, (struct guardian_start_report){errno, "fork"});
    close_all_but(o);
    struct guardian_state s = {.sock = LIFELINE, .sigchld_fd = block_signals()};
    if (s.sigchld_fd < 0)
        report_start(LIFELINE, (struct guardian_start_report){errno, "signalfd"});
    if (guardian > 0)
        monitor(&s, guardian);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, GUARDIAN_NAME);
    report_start(LIFELINE, (struct guardian_start_report){0});
    run(&s);
    _exit(kill_all(&s) ? 0 : 1);
}
