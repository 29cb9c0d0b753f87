#include "launcher/engine/rank_status.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/guardian/process_tree.h"

static const struct {
    long number;
    const char *name;
} calls[] = {
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_readv, "readv"},
    {SYS_writev, "writev"},
    {SYS_pread64, "pread64"},
    {SYS_pwrite64, "pwrite64"},
    {SYS_openat, "openat"},
    {SYS_fsync, "fsync"},
    {SYS_fdatasync, "fdatasync"},
    {SYS_flock, "flock"},
    {SYS_fcntl, "fcntl"},
    {SYS_ioctl, "ioctl"},
    {SYS_ppoll, "ppoll"},
    {SYS_pselect6, "select"},
    {SYS_epoll_pwait, "epoll_wait"},
    {SYS_futex, "futex"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_clock_nanosleep, "nanosleep"},
    {SYS_wait4, "wait4"},
    {SYS_waitid, "waitid"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_sendto, "sendto"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_accept, "accept"},
    {SYS_accept4, "accept"},
    {SYS_connect, "connect"},
    {SYS_rt_sigtimedwait, "sigwait"},
    {SYS_rt_sigsuspend, "sigsuspend"},
    {SYS_sched_yield, "sched_yield"},
    {SYS_io_getevents, "io_getevents"},
#ifdef SYS_poll
    {SYS_poll, "poll"},
    {SYS_select, "select"},
    {SYS_epoll_wait, "epoll_wait"},
    {SYS_pause, "pause"},
    {SYS_open, "open"},
#endif
};

/* Reads the beginning of /proc/PID/NAME as a string; empty if it cannot be read. */
static void read_proc(char *out, size_t size, pid_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
    out[n > 0 ? n : 0] = '\0';
}

static bool is_waiting_for_children(pid_t pid)
{
    char text[64];
    read_proc(text, sizeof text, pid, "syscall");
    long number;
    if (sscanf(text, "%ld", &number) == 1)
        return number == SYS_wait4 || number == SYS_waitid;
    read_proc(text, sizeof text, pid, "wchan"); /* requires fewer permissions */
    return strstr(text, "do_wait") != NULL;
}

/* Returns the only child of a process that has not exited; 0: none, or several. */
static pid_t only_child(const struct process_tree *tree, pid_t pid)
{
    pid_t found = 0;
    for (size_t i = 0; i < tree->count; i++) {
        if (tree->all[i].parent != pid || tree->all[i].state == 'Z')
            continue;
        if (found)
            return 0;
        found = tree->all[i].pid;
    }
    return found;
}

static pid_t relevant_process(const struct process_tree *tree, pid_t pid)
{
    for (pid_t child; is_waiting_for_children(pid) && (child = only_child(tree, pid));)
        pid = child;
    return pid;
}

/* Returns the CPU time of a process and of its reaped children, and sets `*threads`. */
static int64_t cpu_ms_of(pid_t pid, int *threads)
{
    char text[1024];
    read_proc(text, sizeof text, pid, "stat");
    const char *after = strrchr(text, ')');
    unsigned long long user, system;
    long long user_below, system_below;
    if (!after || sscanf(after + 1,
                         " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u" /* state ... cmajflt */
                         " %llu %llu %lld %lld %*d %*d %d", /* utime ... priority nice threads */
                         &user, &system, &user_below, &system_below, threads) != 5)
        return 0;
    int64_t ticks = (int64_t)(user + system) + user_below + system_below;
    return ticks * 1000 / sysconf(_SC_CLK_TCK);
}

static void add_tree(struct rank_status *s, struct process_tree *tree, pid_t pid)
{
    int threads;
    for (size_t i = 0; i < tree->count; i++)
        tree->all[i].marked = tree->all[i].pid == pid;
    process_tree_select_below(tree);
    for (size_t i = 0; i < tree->count; i++) {
        if (!tree->all[i].marked)
            continue;
        s->processes++;
        s->cpu_ms += cpu_ms_of(tree->all[i].pid, &threads);
    }
}

static void read_details(struct rank_status *s)
{
    char text[64];
    read_proc(s->name, sizeof s->name, s->pid, "comm");
    s->name[strcspn(s->name, "\n")] = '\0';
    read_proc(s->wchan, sizeof s->wchan, s->pid, "wchan");
    if (strcmp(s->wchan, "0") == 0)
        s->wchan[0] = '\0';
    /* "running", or "-1 …" outside of a system call */
    read_proc(text, sizeof text, s->pid, "syscall");
    long number;
    if (sscanf(text, "%ld", &number) != 1 || number < 0)
        return;
    snprintf(s->call, sizeof s->call, "call %d", (int)number);
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        if (calls[i].number == number)
            snprintf(s->call, sizeof s->call, "%s", calls[i].name);
}

static void sample_rank(struct rank_status *out, struct process_tree *tree, pid_t pid)
{
    *out = (struct rank_status){0};
    const struct process_tree_proc *first = pid > 0 ? process_tree_find(tree, pid) : NULL;
    if (!first)
        return;
    struct rank_status s = {.pid = relevant_process(tree, pid)};
    const struct process_tree_proc *process = process_tree_find(tree, s.pid);
    s.state = process->state;
    add_tree(&s, tree, pid);
    (void)cpu_ms_of(s.pid, &s.threads);
    read_details(&s);
    *out = s;
}

int rank_status_sample(struct rank_status *out, const pid_t *pids, int n)
{
    struct process_tree tree = {0};
    int rc = process_tree_scan(&tree);
    if (rc < 0)
        return rc;
    for (int i = 0; i < n; i++)
        sample_rank(&out[i], &tree, pids[i]);
    process_tree_free(&tree);
    return 0;
}

void rank_status_describe(struct strbuf *b, const struct rank_status *s)
{
    size_t before = b->len;
    collective_mismatch_describe(b, &s->collective);
    if (b->len > before)
        strbuf_puts(b, ", ");
    if (s->pid == 0)
        strbuf_puts(b, "not visible");
    else if (s->state == 'T')
        strbuf_puts(b, "stopped");
    else if (s->state == 't')
        strbuf_puts(b, "held by a debugger");
    else if (s->state == 'Z')
        strbuf_puts(b, "exited");
    else if (s->state == 'R' || (!s->call[0] && !s->wchan[0]))
        strbuf_puts(b, s->state == 'R' ? "running" : "asleep");
    else if (!s->call[0] || !s->wchan[0])
        strbuf_printf(b, "in %s", s->call[0] ? s->call : s->wchan);
    else
        strbuf_printf(b, "in %s (%s)", s->call, s->wchan);
}

static json_t *position_json(const struct collective_position *a)
{
    json_t *all = json_array();
    for (int i = 0; i < a->count; i++)
        json_array_append_new(all,
                              json_pack("{s:I, s:o, s:I, s:b}", "nth", (json_int_t)a->calls[i].nth,
                                        "what", json_text(a->calls[i].what), "ms",
                                        (json_int_t)a->calls[i].ms, "done", a->calls[i].done));
    return json_pack("{s:o, s:i, s:I, s:i, s:I, s:I, s:I, s:o}", "communicator", json_text(a->comm),
                     "ranks", a->size, "waits_ms", (json_int_t)a->waits_ms, "error", a->failed,
                     "calls_done", (json_int_t)a->calls_done, "waited_ms", (json_int_t)a->waited_ms,
                     "read_ms", (json_int_t)a->read_ms, "calls", all);
}

json_t *rank_status_json(const struct rank_status *s)
{
    char state[2] = {s->state, '\0'};
    AUTO(strbuf) struct strbuf in = {0};
    collective_mismatch_describe(&in, &s->collective);
    return json_pack("{s:i, s:s, s:i, s:i, s:I, s:o, s:s, s:s, s:o, s:o}", "pid", (int)s->pid,
                     "state", state, "processes", s->processes, "threads", s->threads, "cpu_ms",
                     (json_int_t)s->cpu_ms, "program", json_text(s->name), "wchan", s->wchan,
                     "call", s->call, "collective", json_text(strbuf_str(&in)), "collectives",
                     position_json(&s->collective));
}

static int read_position(struct collective_position *out, json_t *j, json_error_t *why)
{
    const char *comm, *what;
    json_int_t waits_ms, calls_done = 0, waited_ms = 0, read_ms = 0, nth, ms;
    json_t *made = NULL, *call;
    size_t i;
    if (json_unpack_ex(j, why, 0, "{s:s, s:i, s:I, s:i, s?I, s?I, s?I, s?o}", "communicator", &comm,
                       "ranks", &out->size, "waits_ms", &waits_ms, "error", &out->failed,
                       "calls_done", &calls_done, "waited_ms", &waited_ms, "read_ms", &read_ms,
                       "calls", &made) < 0)
        return -EINVAL;
    snprintf(out->comm, sizeof out->comm, "%s", comm);
    out->waits_ms = waits_ms;
    out->calls_done = calls_done;
    out->waited_ms = waited_ms;
    out->read_ms = read_ms;
    json_array_foreach (made, i, call) {
        if (i == COLLECTIVE_MISMATCH_CALLS)
            break;
        if (json_unpack_ex(call, why, 0, "{s:I, s:I, s:s}", "nth", &nth, "ms", &ms, "what", &what) <
            0)
            return -EINVAL;
        struct collective_mismatch_call *c = &out->calls[out->count++];
        *c = (struct collective_mismatch_call){
            .nth = (uint64_t)nth, .ms = ms, .done = json_is_true(json_object_get(call, "done"))};
        snprintf(c->what, sizeof c->what, "%s", what);
    }
    return 0;
}

int rank_status_read(struct rank_status *out, const json_t *j, struct err *e)
{
    struct rank_status s = {0};
    const char *state, *name, *wchan, *call;
    static const char *const wide[] = {"cpu_ms",    "waits_ms", "calls_done",
                                       "waited_ms", "read_ms",  NULL};
    const json_t *collectives = json_object_get(j, "collectives");
    json_int_t cpu_ms;
    json_error_t why;
    if (!json_fits_int(j, wide) || !json_fits_int(collectives, wide))
        return err_set(e, -EINVAL, "its status is malformed: a number is too large");
    if (json_unpack_ex((json_t *)j, &why, 0, "{s:i, s:i, s:i, s:I, s:s, s:s, s:s, s:s}", "pid",
                       &s.pid, "processes", &s.processes, "threads", &s.threads, "cpu_ms", &cpu_ms,
                       "state", &state, "program", &name, "wchan", &wchan, "call", &call) < 0 ||
        read_position(&s.collective, json_object_get(j, "collectives"), &why) < 0)
        return err_set(e, -EINVAL, "its status is malformed: %s", why.text);
    s.cpu_ms = cpu_ms;
    s.state = state[0];
    snprintf(s.name, sizeof s.name, "%s", name);
    snprintf(s.wchan, sizeof s.wchan, "%s", wchan);
    snprintf(s.call, sizeof s.call, "%s", call);
    *out = s;
    return 0;
}
