#include "launcher/guardian/process_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/strbuf.h"

enum {
    PATH_BYTES = 96,
    STAT_BYTES = 1024,        /* a name of 64 bytes at most and 51 numbers */
    ENV_BYTES_MAX = 16 << 20, /* usually the kernel allows less at the start of a program */
    READ_BYTES = 16 << 10
};

/* Opens /proc/PID/NAME for reading. Returns the descriptor, or -errno. */
static int proc_open(pid_t pid, const char *name)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? -ESRCH : -errno;
    return fd;
}

/* Reads /proc/PID/stat. `env` gets the addresses of the environment; they are 0 and 0 if the kernel
 * hides them. */
static int read_stat(struct process_tree_proc *out, unsigned long env[2], pid_t pid)
{
    AUTO(fd) int fd = proc_open(pid, "stat");
    if (fd < 0)
        return fd;
    char text[STAT_BYTES];
    ssize_t n = read(fd, text, sizeof text - 1);
    if (n <= 0)
        return -ESRCH;
    text[n] = '\0';
    /* The name may contain any characters, even brackets and spaces. So the numbers are searched
     * after the last ')'. */
    const char *after = strrchr(text, ')');
    struct process_tree_proc w = {.pid = pid};
    unsigned long long start;
    if (!after ||
        sscanf(after + 1,
               " %c %d %d %d"                 /* state parent group session */
               " %*d %*d %u %*u %*u %*u %*u"  /* terminal tpgid flags ... cmajflt */
               " %*u %*u %*d %*d %*d %*d"     /* utime ... nice */
               " %*d %*d %llu"                /* threads itrealvalue starttime */
               " %*u %*d %*u %*u %*u %*u %*u" /* vsize ... kstkesp */
               " %*u %*u %*u %*u %*u %*u %*u" /* kstkeip ... nswap */
               " %*u %*d %*d %*u %*u %*u %*u" /* cnswap ... guest_time */
               " %*d %*u %*u %*u %*u %*u"     /* cguest_time ... arg_end */
               " %lu %lu",                    /* env_start env_end */
               &w.state, &w.parent, &w.group, &w.session, &w.flags, &start, &env[0], &env[1]) != 8)
        return -ESRCH;
    w.start = start;
    *out = w;
    return 0;
}

int process_tree_read(struct process_tree_proc *out, pid_t pid)
{
    unsigned long env[2];
    return read_stat(out, env, pid);
}

bool process_tree_is_ancestor(pid_t pid)
{
    struct process_tree_proc p = {.parent = getpid()};
    while (p.parent != pid)
        if (p.parent <= 1 || process_tree_read(&p, p.parent) < 0)
            return false;
    return pid > 0;
}

bool process_tree_is_descendant(pid_t pid)
{
    struct process_tree_proc p = {.parent = pid};
    while (p.parent > 1 && p.parent != getpid())
        if (process_tree_read(&p, p.parent) < 0)
            return false;
    return p.parent == getpid();
}

/* Tests PF_EXITING of the kernel's sched.h. The kernel sets it before it closes the process's
 * descriptors, and thus before other processes can notice the death. */
bool process_tree_is_dead(pid_t pid)
{
    enum { EXITING = 4 };
    struct process_tree_proc w;
    return process_tree_read(&w, pid) < 0 || w.state == 'Z' || w.state == 'X' ||
           (w.flags & EXITING);
}

uint64_t process_tree_clock(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_BOOTTIME, &t);
    uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
    return (uint64_t)t.tv_sec * ticks + (uint64_t)t.tv_nsec / (1000000000 / ticks);
}

/* Reads a file in /proc, up to `max` bytes. */
static void proc_slurp(struct strbuf *out, int fd, size_t max)
{
    char bytes[READ_BYTES];
    ssize_t n;
    while (out->len < max && (n = read(fd, bytes, sizeof bytes)) > 0)
        strbuf_add(out, bytes, (size_t)n);
}

/* Returns true if the name of the process's program (AT_EXECFN) is at `address`, or if there is no
 * name (a 32-bit program). Returns false if the kernel has not written the name yet. */
static bool name_is_at(unsigned long address, pid_t pid)
{
    AUTO(fd) int fd = proc_open(pid, "auxv");
    unsigned long entry[2] = {0}; /* type, value; the last one is 0, 0 */
    bool any = false;
    while (fd >= 0 && read(fd, entry, sizeof entry) == sizeof entry && entry[0] != AT_NULL) {
        if (entry[0] == AT_EXECFN)
            return entry[1] == address;
        any = true;
    }
    return any;
}

/* Finds out why a process shows no environment. Returns 0 if its environment is empty, or -EAGAIN
 * if the environment is not complete yet. The kernel writes a program's strings to rising
 * addresses: arguments, environment, name (fs/exec.c, fs/binfmt_elf.c). So an empty environment
 * ends where the name begins. An environment that is being written ends before that, and one that
 * is not begun has no address. */
static int no_environment(pid_t pid)
{
    struct process_tree_proc w;
    unsigned long env[2];
    int rc = read_stat(&w, env, pid);
    if (rc == -ESRCH || (rc == 0 && w.state == 'Z'))
        return 0;
    if (rc < 0)
        return rc;
    return env[0] != 0 && env[0] == env[1] && name_is_at(env[1], pid) ? 0 : -EAGAIN;
}

int process_tree_env(char **value, pid_t pid, const char *name)
{
    *value = NULL;
    AUTO(fd) int fd = proc_open(pid, "environ");
    if (fd < 0)
        return fd == -ESRCH || fd == -EACCES || fd == -EPERM ? 0 : fd;
    AUTO(strbuf) struct strbuf env = {0};
    proc_slurp(&env, fd, ENV_BYTES_MAX);
    if (env.len == 0)
        return no_environment(pid);
    size_t len = strlen(name);
    const char *end = strbuf_str(&env) + env.len;
    for (const char *at = strbuf_str(&env); at < end; at += strlen(at) + 1)
        if (strncmp(at, name, len) == 0 && at[len] == '=') {
            *value = xstrdup(at + len + 1);
            break;
        }
    return 0;
}

/* Finds the children by a scan of all processes. */
static int children_by_scan(pid_t **out)
{
    struct process_tree w = {0};
    int rc = process_tree_scan(&w);
    if (rc < 0)
        return rc;
    pid_t *pids = xcalloc(w.count, sizeof *pids);
    int n = 0;
    for (size_t i = 0; i < w.count; i++)
        if (w.all[i].parent == getpid())
            pids[n++] = w.all[i].pid;
    process_tree_free(&w);
    *out = pids;
    return n;
}

int process_tree_children(pid_t **out)
{
    char name[PATH_BYTES / 2];
    snprintf(name, sizeof name, "task/%d/children", (int)getpid());
    AUTO(fd) int fd = proc_open(getpid(), name);
    if (fd < 0)
        return children_by_scan(out); /* the kernel has no CONFIG_PROC_CHILDREN */
    AUTO(strbuf) struct strbuf text = {0};
    proc_slurp(&text, fd, SIZE_MAX);
    AUTO(free)
    /* Each pid has at least a digit and a space */
    pid_t *pids = xcalloc(text.len / 2 + 1, sizeof *pids);
    int n = 0;
    char *at = text.data, *end = NULL;
    for (long pid; at && (pid = strtol(at, &end, 10)) > 0 && end != at; at = end)
        pids[n++] = (pid_t)pid;
    *out = TAKE(pids);
    return n;
}

static int by_pid(const void *a, const void *b)
{
    const struct process_tree_proc *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

int process_tree_scan(struct process_tree *out)
{
    DIR *proc = opendir("/proc");
    if (!proc)
        return -errno;
    struct process_tree w = {0};
    for (const struct dirent *d; (d = readdir(proc));) {
        struct process_tree_proc one;
        if (!isdigit((unsigned char)d->d_name[0]) || process_tree_read(&one, atoi(d->d_name)) < 0)
            continue;
        w.all = xgrow(w.all, w.count, sizeof *w.all);
        w.all[w.count++] = one;
    }
    closedir(proc);
    if (w.count)
        qsort(w.all, w.count, sizeof *w.all, by_pid);
    *out = w;
    return 0;
}

void process_tree_free(struct process_tree *w)
{
    free(w->all);
    *w = (struct process_tree){0};
}

struct process_tree_proc *process_tree_find(const struct process_tree *w, pid_t pid)
{
    const struct process_tree_proc key = {.pid = pid};
    return w->count ? bsearch(&key, w->all, w->count, sizeof *w->all, by_pid) : NULL;
}

bool process_tree_has(const struct process_tree *w, const struct process_tree_proc *one)
{
    const struct process_tree_proc *found = process_tree_find(w, one->pid);
    return found && found->start == one->start;
}

void process_tree_select_below(struct process_tree *w)
{
    /* One pass is enough if each parent has a smaller pid than its children. After pids have
     * wrapped around, more passes are needed. */
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < w->count; i++) {
            struct process_tree_proc *one = &w->all[i];
            const struct process_tree_proc *parent =
                one->marked ? NULL : process_tree_find(w, one->parent);
            if (parent && parent->marked)
                again = one->marked = true;
        }
    }
}

/* Kills the process if the pid is still that of this process. Returns false otherwise. */
static bool kill_one(const struct process_tree_proc *w)
{
    AUTO(fd) int fd = (int)syscall(SYS_pidfd_open, w->pid, 0);
    if (fd < 0 && errno == ESRCH)
        return false;
    struct process_tree_proc now;
    if (process_tree_read(&now, w->pid) < 0 || now.start != w->start)
        return false;
    if (fd < 0) /* old kernels and sandboxes have no pidfds: a gap of a microsecond remains */
        return kill(w->pid, SIGKILL) == 0;
    return syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0;
}

void process_tree_kill_selected(const struct process_tree *w)
{
    pid_t ours = getpgrp(), last = 0;
    for (size_t i = 0; i < w->count; i++) {
        const struct process_tree_proc *one = &w->all[i];
        if (!one->marked || !kill_one(one))
            continue;
        /* Also kills the group, since processes that were forked during the scan are not in the
         * scan. They cannot leave the group so quickly. This must follow immediately: the killed
         * member prevents a reuse of the group's number only for a moment. */
        if (one->group > 1 && one->group != ours && one->group != last)
            kill(-one->group, SIGKILL);
        last = one->group;
    }
}

void process_tree_keep_selected(struct process_tree *w)
{
    size_t kept = 0;
    for (size_t i = 0; i < w->count; i++)
        if (w->all[i].marked)
            w->all[kept++] = w->all[i];
    w->count = kept;
}
