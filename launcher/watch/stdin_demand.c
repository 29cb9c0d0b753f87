#include "launcher/watch/stdin_demand.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/mem.h"
#include "launcher/guardian/process_tree.h"

enum { POLLED_MAX = 256 /* descriptors of a poll(2) that are examined */ };

/* A system call in which a thread sleeps, read from /proc/PID/task/TID/syscall. */
struct waiting {
    pid_t pid;
    ino_t pipe;
    unsigned long arg[2];
};

static bool is_pipe(const struct waiting *w, long fd)
{
    char path[64], link[64], wanted[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%ld", (int)w->pid, fd);
    snprintf(wanted, sizeof wanted, "pipe:[%lu]", (unsigned long)w->pipe);
    ssize_t n = readlink(path, link, sizeof link - 1);
    link[n > 0 ? n : 0] = '\0';
    return strcmp(link, wanted) == 0;
}

static bool copy(void *to, size_t size, const struct waiting *w, unsigned long from)
{
    struct iovec here = {to, size}, there = {(void *)from, size}; // NOLINT: an address in `pid`
    return process_vm_readv(w->pid, &here, 1, &there, 1, 0) == (ssize_t)size;
}

static bool reads(const struct waiting *w)
{
    return is_pipe(w, (long)w->arg[0]);
}

static bool sends_file(const struct waiting *w)
{
    return is_pipe(w, (long)w->arg[1]);
}

static bool polls(const struct waiting *w)
{
    struct pollfd polled[POLLED_MAX];
    size_t n = w->arg[1] < POLLED_MAX ? w->arg[1] : POLLED_MAX;
    if (!copy(polled, n * sizeof *polled, w, w->arg[0]))
        return true;
    for (size_t i = 0; i < n; i++)
        if (polled[i].fd >= 0 && polled[i].events & POLLIN && is_pipe(w, polled[i].fd))
            return true;
    return false;
}

static bool selects(const struct waiting *w)
{
    fd_set readable;
    if (w->arg[1] == 0)
        return false;
    if (!copy(&readable, sizeof readable, w, w->arg[1]))
        return true;
    for (int fd = 0; fd < FD_SETSIZE && (unsigned long)fd < w->arg[0]; fd++)
        if (FD_ISSET(fd, &readable) && is_pipe(w, fd))
            return true;
    return false;
}

/* Opens /proc/PID/fdinfo/FD. Returns NULL if it does not exist. */
static FILE *open_fdinfo(const struct waiting *w, long fd)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fdinfo/%ld", (int)w->pid, fd);
    return fopen(path, "re");
}

static bool waits_by_epoll(const struct waiting *w)
{
    AUTO(file) FILE *f = open_fdinfo(w, (long)w->arg[0]);
    char line[256];
    long fd;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "tfd: %ld", &fd) == 1 && is_pipe(w, fd))
            return true;
    return false;
}

static bool is_unknown(const struct waiting *w)
{
    return true;
}

static const struct {
    long number;
    bool (*demands)(const struct waiting *w);
} calls[] = {
    {SYS_read, reads},
    {SYS_readv, reads},
    {SYS_splice, reads},
    {SYS_sendfile, sends_file},
    {SYS_ppoll, polls},
    {SYS_pselect6, selects},
    {SYS_epoll_pwait, waits_by_epoll},
    {SYS_epoll_pwait2, waits_by_epoll},
    {SYS_io_uring_enter, is_unknown},
#ifdef SYS_poll
    {SYS_poll, polls},
    {SYS_select, selects},
    {SYS_epoll_wait, waits_by_epoll},
#endif
};

static bool thread_demands(struct waiting *w, const char *tid)
{
    char path[320], text[160] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%s/syscall", (int)w->pid, tid);
    AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    long number;
    if (n < 0)
        return errno != ENOENT && errno != ESRCH; /* otherwise the thread has ended */
    if (sscanf(text, "%ld %lx %lx", &number, &w->arg[0], &w->arg[1]) != 3)
        return false; /* "running" */
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        if (calls[i].number == number)
            return calls[i].demands(w);
    return false;
}

/* Returns true if reads of the pipe do not block; a program may then poll the pipe at any time. */
static bool is_nonblocking(const struct waiting *w)
{
    AUTO(file) FILE *f = is_pipe(w, STDIN_FILENO) ? open_fdinfo(w, STDIN_FILENO) : NULL;
    char line[256];
    unsigned flags;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "flags: %o", &flags) == 1)
            return flags & O_NONBLOCK;
    return false;
}

static bool process_demands(pid_t pid, ino_t pipe)
{
    struct waiting w = {.pid = pid, .pipe = pipe};
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    AUTO(dir) DIR *tasks = opendir(path);
    bool found = tasks && is_nonblocking(&w);
    for (const struct dirent *d; tasks && !found && (d = readdir(tasks));)
        found = d->d_name[0] != '.' && thread_demands(&w, d->d_name);
    return found;
}

bool stdin_demand(pid_t rank, ino_t pipe)
{
    struct process_tree w = {0};
    if (process_tree_scan(&w) < 0)
        return true;
    struct process_tree_proc *root = process_tree_find(&w, rank);
    if (root)
        root->marked = true;
    process_tree_select_below(&w);
    bool found = false;
    for (size_t i = 0; i < w.count && !found; i++)
        found = w.all[i].marked && process_demands(w.all[i].pid, pipe);
    process_tree_free(&w);
    return found;
}
