#include "launcher/engine/process_wait.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/mem.h"

enum { TCP_SYN_SENT = 2 };

/* What the first argument of a call is. */
enum first { OTHER, FD, PATH, POLLED, SET };

static const struct {
    long number;
    const char *name;
    enum first first;
} calls[] = {
    {SYS_read, "read", FD},
    {SYS_write, "write", FD},
    {SYS_readv, "readv", FD},
    {SYS_writev, "writev", FD},
    {SYS_pread64, "pread64", FD},
    {SYS_pwrite64, "pwrite64", FD},
    {SYS_openat, "openat", OTHER},
    {SYS_fsync, "fsync", FD},
    {SYS_fdatasync, "fdatasync", FD},
    {SYS_flock, "flock", FD},
    {SYS_fcntl, "fcntl", FD},
    {SYS_ioctl, "ioctl", FD},
    {SYS_ppoll, "ppoll", POLLED},
    {SYS_pselect6, "select", SET},
    {SYS_epoll_pwait, "epoll_wait", OTHER},
    {SYS_futex, "futex", OTHER},
    {SYS_nanosleep, "nanosleep", OTHER},
    {SYS_clock_nanosleep, "nanosleep", OTHER},
    {SYS_wait4, "wait4", OTHER},
    {SYS_waitid, "waitid", OTHER},
    {SYS_recvfrom, "recvfrom", FD},
    {SYS_recvmsg, "recvmsg", FD},
    {SYS_sendto, "sendto", FD},
    {SYS_sendmsg, "sendmsg", FD},
    {SYS_accept, "accept", FD},
    {SYS_accept4, "accept", FD},
    {SYS_connect, "connect", FD},
    {SYS_rt_sigtimedwait, "sigwait", OTHER},
    {SYS_rt_sigsuspend, "sigsuspend", OTHER},
    {SYS_sched_yield, "sched_yield", OTHER},
    {SYS_io_getevents, "io_getevents", OTHER},
#ifdef SYS_poll
    {SYS_poll, "poll", POLLED},
    {SYS_select, "select", SET},
    {SYS_epoll_wait, "epoll_wait", OTHER},
    {SYS_pause, "pause", OTHER},
    {SYS_open, "open", PATH},
#endif
};

void process_wait_proc(char *out, size_t size, pid_t pid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);
    out[n > 0 ? n : 0] = '\0';
}

/* Reads the memory of a process. Returns the number of bytes, or -1. */
static ssize_t read_memory(void *out, size_t size, pid_t pid, unsigned long at)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
    AUTO(fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -1 : pread(fd, out, size, (off_t)at);
}

/* ---- targets -------------------------------------------------------------------------------- */

/* Writes the peer of a TCP socket to `out`, from /proc/PID/net/tcp or tcp6. Returns false if the
 * file does not have the socket. */
static bool find_peer(char *out, size_t size, pid_t pid, const char *table, unsigned long inode)
{
    char path[64], line[512], from[80], to[80];
    snprintf(path, sizeof path, "/proc/%d/net/%s", (int)pid, table);
    FILE *f = fopen(path, "re");
    bool found = false;
    while (f && !found && fgets(line, sizeof line, f)) {
        unsigned state, port;
        unsigned long one;
        if (sscanf(line, " %*d: %79s %79s %x %*s %*s %*s %*u %*u %lu", from, to, &state, &one) !=
                4 ||
            one != inode)
            continue;
        uint32_t words[4] = {0};
        char address[INET6_ADDRSTRLEN] = "?", *colon = strchr(to, ':');
        bool six = colon && colon - to > 8;
        if (!colon || sscanf(colon + 1, "%x", &port) != 1)
            break;
        for (int i = 0; i < (six ? 4 : 1); i++)
            sscanf(to + 8 * i, "%8x", &words[i]);
        inet_ntop(six ? AF_INET6 : AF_INET, words, address, sizeof address);
        snprintf(out, size, "TCP %s:%u%s", address, port,
                 state == TCP_SYN_SENT ? ", connecting" : "");
        found = true;
    }
    if (f)
        fclose(f);
    return found;
}

static void describe_fd(struct process_wait *w, int fd)
{
    static const char *const standard[] = {"stdin", "stdout", "stderr"};
    char path[64], link[sizeof w->target - 8];
    struct stat st;
    unsigned long inode;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)w->pid, fd);
    ssize_t n = readlink(path, link, sizeof link - 1);
    if (n < 0)
        return;
    link[n] = '\0';
    bool known = stat(path, &st) == 0;
    if (sscanf(link, "socket:[%lu]", &inode) == 1) {
        if (!find_peer(w->target, sizeof w->target, w->pid, "tcp", inode) &&
            !find_peer(w->target, sizeof w->target, w->pid, "tcp6", inode))
            snprintf(w->target, sizeof w->target, "socket");
    } else if (fd < 3 && known && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode)) &&
               (link[0] != '/' || strncmp(link, "/dev/", 5) == 0)) {
        snprintf(w->target, sizeof w->target, "%s", standard[fd]);
    } else if (strncmp(link, "pipe:", 5) == 0) {
        snprintf(w->target, sizeof w->target, "pipe");
    } else if (link[0] == '/') {
        bool terminal = strncmp(link, "/dev/pts/", 9) == 0 || strncmp(link, "/dev/tty", 8) == 0;
        snprintf(w->target, sizeof w->target, "%s%s", known && S_ISFIFO(st.st_mode) ? "FIFO " : "",
                 terminal ? "terminal" : link);
    }
}

static void describe_path(struct process_wait *w, unsigned long at)
{
    char path[sizeof w->target];
    ssize_t n = read_memory(path, sizeof path - 1, w->pid, at);
    if (n <= 0)
        return;
    path[n] = '\0';
    snprintf(w->target, sizeof w->target, "%s", path);
}

static void describe_target(struct process_wait *w, enum first first, const unsigned long *args)
{
    struct pollfd polled;
    if (first == FD)
        describe_fd(w, (int)args[0]);
    else if (first == PATH || strcmp(w->call, "openat") == 0)
        describe_path(w, args[first != PATH]);
    else if ((first == POLLED && args[1] == 0) || (first == SET && args[0] == 0))
        snprintf(w->target, sizeof w->target, "nothing");
    else if (first == POLLED && args[1] == 1 &&
             read_memory(&polled, sizeof polled, w->pid, args[0]) == sizeof polled)
        describe_fd(w, polled.fd);
}

void process_wait_read(struct process_wait *out, pid_t pid, char state)
{
    char text[256];
    long number;
    unsigned long args[2] = {0};
    *out = (struct process_wait){.pid = pid, .state = state};
    process_wait_proc(out->name, sizeof out->name, pid, "comm");
    out->name[strcspn(out->name, "\n")] = '\0';
    process_wait_proc(out->wchan, sizeof out->wchan, pid, "wchan");
    if (strcmp(out->wchan, "0") == 0)
        out->wchan[0] = '\0';
    /* "running", or "-1 …" outside of a system call */
    process_wait_proc(text, sizeof text, pid, "syscall");
    if (sscanf(text, "%ld %lx %lx", &number, &args[0], &args[1]) < 1 || number < 0)
        return;
    snprintf(out->call, sizeof out->call, "call %d", (int)number);
    for (size_t i = 0; i < COUNT_OF(calls); i++)
        if (calls[i].number == number) {
            snprintf(out->call, sizeof out->call, "%s", calls[i].name);
            describe_target(out, calls[i].first, args);
        }
}

/* A line with an arrow is a process that waits for the lock of the line above that has none:
 *   1: FLOCK  ADVISORY  WRITE 100 08:01:12 0 EOF
 *   1: -> FLOCK  ADVISORY  WRITE 101 08:01:12 0 EOF */
pid_t process_wait_lock_holder(pid_t pid)
{
    char line[256];
    FILE *f = fopen("/proc/locks", "re");
    int holder = 0, one, found = 0;
    while (f && found == 0 && fgets(line, sizeof line, f)) {
        if (sscanf(line, "%*d: -> %*s %*s %*s %d", &one) == 1)
            found = one == (int)pid ? holder : 0;
        else if (sscanf(line, "%*d: %*s %*s %*s %d", &one) == 1)
            holder = one;
    }
    if (f)
        fclose(f);
    return found > 0 ? found : 0;
}
