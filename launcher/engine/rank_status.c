#include "launcher/engine/rank_status.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/engine/process_wait_kind.h"
#include "launcher/guardian/process_tree.h"

static bool is_waiting_for_children(pid_t pid)
{
    char text[64];
    process_wait_proc(text, sizeof text, pid, "syscall");
    long number;
    if (sscanf(text, "%ld", &number) == 1)
        return number == SYS_wait4 || number == SYS_waitid;
    process_wait_proc(text, sizeof text, pid, "wchan"); /* requires fewer permissions */
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

/* These only start the program that is meant. */
static bool is_shell(const char *name)
{
    static const char *const shells[] = {"sh",   "bash", "dash",    "zsh",  "ksh", "env",
                                         "time", "tini", "numactl", "nsys", NULL};
    return strv_has(shells, name);
}

/* Returns the relevant process below a rank's first one, and sets `s->parent`. */
static pid_t relevant_process(struct rank_status *s, const struct process_tree *tree, pid_t pid)
{
    char name[sizeof s->parent];
    for (pid_t child; is_waiting_for_children(pid) && (child = only_child(tree, pid));
         pid = child) {
        process_wait_proc(name, sizeof name, pid, "comm");
        name[strcspn(name, "\n")] = '\0';
        if (!s->parent[0] && !is_shell(name))
            snprintf(s->parent, sizeof s->parent, "%s", name);
    }
    return pid;
}

/* Returns true if a process waits for data of a TCP connection to its MASTER_PORT. */
static bool waits_at_rendezvous(const struct process_wait *w)
{
    AUTO(free) char *port = NULL;
    const char *colon = strrchr(w->target, ':');
    return strncmp(w->target, "TCP ", 4) == 0 && colon &&
           process_tree_env(&port, w->pid, "MASTER_PORT") == 0 && port &&
           strncmp(colon + 1, port, strlen(port)) == 0;
}

/* Adds the CPU time and the page faults of a process and of its reaped children, and sets
 * `*threads`. */
static void add_stat(struct rank_status *s, pid_t pid, int *threads)
{
    char text[1024];
    process_wait_proc(text, sizeof text, pid, "stat");
    const char *after = strrchr(text, ')');
    unsigned long long faults, faults_below, user, system;
    long long user_below, system_below;
    if (!after ||
        sscanf(after + 1,
               " %*c %*d %*d %*d %*d %*d %*u %llu %llu %*u %*u" /* state ... cmajflt */
               " %llu %llu %lld %lld %*d %*d %d", /* utime ... priority nice threads */
               &faults, &faults_below, &user, &system, &user_below, &system_below, threads) != 7)
        return;
    int64_t ticks = (int64_t)(user + system) + user_below + system_below;
    s->cpu_ms += ticks * 1000 / sysconf(_SC_CLK_TCK);
    s->faults += (int64_t)(faults + faults_below);
}

/* Adds the bytes that a process and its reaped children have read and written. */
static void add_io(struct rank_status *s, pid_t pid)
{
    char text[256];
    long long in, out;
    process_wait_proc(text, sizeof text, pid, "io");
    if (sscanf(text, "rchar: %lld wchar: %lld", &in, &out) == 2)
        s->io_bytes += in + out;
}

/* Keeps that descendant which waits for something outside of the rank, if there is one. */
static void add_descendant(struct rank_status *s, const struct process_tree_proc *p)
{
    struct process_wait w;
    if (p->pid == s->at.pid || p->pid == s->root || p->state == 'Z' || p->state == 'R')
        return;
    process_wait_read(&w, p->pid, p->state);
    enum process_wait_kind kind = process_wait_kind(&w);
    /* A worker reads its requests from stdin, or sleeps until there are any */
    if (strcmp(w.target, "stdin") != 0 && kind >= PROCESS_WAIT_FUTEX &&
        kind != PROCESS_WAIT_SLEEP && kind > process_wait_kind(&s->child))
        s->child = w;
}

static void add_tree(struct rank_status *s, struct process_tree *tree)
{
    int threads;
    for (size_t i = 0; i < tree->count; i++)
        tree->all[i].marked = tree->all[i].pid == s->root;
    process_tree_select_below(tree);
    for (size_t i = 0; i < tree->count; i++) {
        if (!tree->all[i].marked)
            continue;
        s->processes++;
        add_stat(s, tree->all[i].pid, &threads);
        add_io(s, tree->all[i].pid);
        add_descendant(s, &tree->all[i]);
    }
}

/* Returns that of the `n` processes above `pid`, itself included, which is a rank's first; 0:
 * none. */
static pid_t root_of(const struct process_tree *tree, pid_t pid, const pid_t *roots, int n)
{
    const struct process_tree_proc *p = process_tree_find(tree, pid);
    for (int depth = 0; p && depth < 64; depth++, p = process_tree_find(tree, p->parent))
        for (int i = 0; i < n; i++)
            if (roots[i] == p->pid)
                return p->pid;
    return 0;
}

static void find_holder(struct rank_status *s, const struct process_tree *tree, const pid_t *roots,
                        int n)
{
    const struct process_wait *w = &s->at;
    if (process_wait_kind(w) != PROCESS_WAIT_FILE_LOCK)
        w = &s->child;
    if (process_wait_kind(w) != PROCESS_WAIT_FILE_LOCK)
        return;
    s->holder = process_wait_lock_holder(w->pid);
    s->holder_root = root_of(tree, s->holder, roots, n);
}

static void sample_rank(struct rank_status *out, struct process_tree *tree, pid_t pid,
                        const pid_t *roots, int n)
{
    *out = (struct rank_status){0};
    const struct process_tree_proc *first = pid > 0 ? process_tree_find(tree, pid) : NULL;
    if (!first)
        return;
    struct rank_status s = {.root = pid}, counted = {0};
    const struct process_tree_proc *process =
        process_tree_find(tree, relevant_process(&s, tree, pid));
    process_wait_read(&s.at, process->pid, process->state);
    s.at_rendezvous = waits_at_rendezvous(&s.at);
    add_tree(&s, tree);
    add_stat(&counted, s.at.pid, &s.threads);
    find_holder(&s, tree, roots, n);
    *out = s;
}

int rank_status_sample(struct rank_status *out, const pid_t *pids, int n)
{
    struct process_tree tree = {0};
    int rc = process_tree_scan(&tree);
    if (rc < 0)
        return rc;
    for (int i = 0; i < n; i++)
        sample_rank(&out[i], &tree, pids[i], pids, n);
    process_tree_free(&tree);
    return 0;
}

void rank_status_describe(struct strbuf *b, const struct rank_status *s)
{
    size_t before = b->len;
    collective_mismatch_describe(b, &s->collective);
    if (b->len > before)
        strbuf_puts(b, ", ");
    process_wait_describe(b, &s->at);
}

static json_t *wait_json(const struct process_wait *w)
{
    char state[2] = {w->state, '\0'};
    return json_pack("{s:i, s:s, s:o, s:s, s:s, s:o}", "pid", (int)w->pid, "state", state,
                     "program", json_text(w->name), "wchan", w->wchan, "call", w->call, "target",
                     json_text(w->target));
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
    AUTO(strbuf) struct strbuf in = {0};
    collective_mismatch_describe(&in, &s->collective);
    json_t *j = wait_json(&s->at);
    json_object_update_new(
        j, json_pack("{s:i, s:b, s:i, s:i, s:I, s:I, s:I, s:o, s:i, s:i, s:o, s:o, s:o}", "root",
                     (int)s->root, "at_rendezvous", s->at_rendezvous, "processes", s->processes,
                     "threads", s->threads, "cpu_ms", (json_int_t)s->cpu_ms, "io_bytes",
                     (json_int_t)s->io_bytes, "faults", (json_int_t)s->faults, "parent",
                     json_text(s->parent), "lock_holder", (int)s->holder, "lock_holder_root",
                     (int)s->holder_root, "child", wait_json(&s->child), "collective",
                     json_text(strbuf_str(&in)), "collectives", position_json(&s->collective)));
    return j;
}

static int read_wait(struct process_wait *out, json_t *j, json_error_t *why)
{
    const char *state, *name, *wchan, *call, *target;
    if (json_unpack_ex(j, why, 0, "{s:i, s:s, s:s, s:s, s:s, s:s}", "pid", &out->pid, "state",
                       &state, "program", &name, "wchan", &wchan, "call", &call, "target",
                       &target) < 0)
        return -EINVAL;
    out->state = state[0];
    snprintf(out->name, sizeof out->name, "%s", name);
    snprintf(out->wchan, sizeof out->wchan, "%s", wchan);
    snprintf(out->call, sizeof out->call, "%s", call);
    snprintf(out->target, sizeof out->target, "%s", target);
    return 0;
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
    const char *parent;
    static const char *const wide[] = {"cpu_ms",     "io_bytes",  "faults",  "waits_ms",
                                       "calls_done", "waited_ms", "read_ms", NULL};
    const json_t *collectives = json_object_get(j, "collectives");
    json_t *child = json_object_get(j, "child");
    json_int_t cpu_ms, io_bytes, faults;
    int at_rendezvous = 0;
    json_error_t why;
    if (!json_fits_int(j, wide) || !json_fits_int(child, wide) || !json_fits_int(collectives, wide))
        return err_set(e, -EINVAL, "its status is malformed: a number is too large");
    if (json_unpack_ex(
            (json_t *)j, &why, 0, "{s:i, s:i, s:i, s:I, s:I, s:I, s:s, s:i, s:i, s:o, s:o}", "root",
            &s.root, "processes", &s.processes, "threads", &s.threads, "cpu_ms", &cpu_ms,
            "io_bytes", &io_bytes, "faults", &faults, "parent", &parent, "lock_holder", &s.holder,
            "lock_holder_root", &s.holder_root, "child", &child, "collectives", &collectives) < 0 ||
        read_wait(&s.at, (json_t *)j, &why) < 0 || read_wait(&s.child, child, &why) < 0 ||
        read_position(&s.collective, (json_t *)collectives, &why) < 0)
        return err_set(e, -EINVAL, "its status is malformed: %s", why.text);
    s.cpu_ms = cpu_ms;
    s.io_bytes = io_bytes;
    s.faults = faults;
    s.at_rendezvous = at_rendezvous != 0;
    snprintf(s.parent, sizeof s.parent, "%s", parent);
    *out = s;
    return 0;
}
