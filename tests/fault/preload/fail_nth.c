/* A library for LD_PRELOAD that makes the n-th call of one function fail.
 *
 *   FAIL_CALL     the function, such as open or malloc; open means each of its variants
 *   FAIL_NTH      the first call that fails, counted from 1 in each process; fork() continues it
 *   FAIL_TIMES    how many calls fail from there on (default: 1)
 *   FAIL_ERRNO    the error as a number
 *   FAIL_PROGRAM  the file name of the programs that have faults, such as drover-hpo
 *   FAIL_COMMAND  their first argument, such as worker; empty: any
 *   FAIL_LOG      the file that gets one line per call that failed
 *
 * Ranks have no faults. Calls before main() are not counted, nor calls that libc makes inside
 * itself. Output to the standard streams does not fail. */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FRAMES_MAX = 24 };

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);

static struct {
    const char *call, *log;
    long nth, times;
    int error;
} fault; /* call: NULL in programs without faults */
static atomic_long calls;

static bool is_program(const char *want)
{
    char exe[4096];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    if (n < 0 || !want)
        return false;
    exe[n] = '\0';
    return strcmp(strrchr(exe, '/') + 1, want) == 0;
}

__attribute__((constructor)) static void begin(int argc, char **argv)
{
    const char *command = getenv("FAIL_COMMAND"), *nth = getenv("FAIL_NTH"),
               *times = getenv("FAIL_TIMES"), *error = getenv("FAIL_ERRNO");
    if (getenv("RANK") || !is_program(getenv("FAIL_PROGRAM")) ||
        (command && *command && (argc < 2 || strcmp(argv[1], command) != 0)))
        return;
    backtrace((void *[1]){NULL}, 1); /* loads libgcc, which needs memory */
    fault.log = getenv("FAIL_LOG");
    fault.nth = nth ? atol(nth) : 1;
    fault.times = times ? atol(times) : 1;
    fault.error = error ? atoi(error) : EIO;
    fault.call = getenv("FAIL_CALL");
}

/* The line has the modules and offsets of the call's stack, for addr2line(1). */
static void log_fault(const char *call, long n)
{
    void *stack[FRAMES_MAX];
    char line[4096];
    int len = snprintf(line, sizeof line, "%d %s %ld", getpid(), call, n);
    int frames = backtrace(stack, FRAMES_MAX);
    for (int i = 2; i < frames && len < (int)sizeof line - 300; i++) {
        Dl_info at = {0};
        dladdr(stack[i], &at);
        const char *path = at.dli_fname ? at.dli_fname : "?", *slash = strrchr(path, '/');
        len += snprintf(line + len, sizeof line - (size_t)len, " %.200s+%#lx",
                        slash ? slash + 1 : path,
                        (unsigned long)((char *)stack[i] - (char *)at.dli_fbase));
    }
    line[len++] = '\n';
    int fd = (int)syscall(SYS_openat, AT_FDCWD, fault.log, O_WRONLY | O_APPEND | O_CREAT, 0600);
    syscall(SYS_write, fd, line, len);
    syscall(SYS_close, fd);
}

static bool fails(const char *call)
{
    if (!fault.call || strcmp(fault.call, call) != 0)
        return false;
    long n = atomic_fetch_add(&calls, 1) + 1;
    if (n < fault.nth || n >= fault.nth + fault.times)
        return false;
    if (fault.log)
        log_fault(call, n);
    errno = fault.error;
    return true;
}

static bool is_in(const char *library, const void *caller)
{
    Dl_info at = {0};
    return fault.call && dladdr(caller, &at) && at.dli_fname && strstr(at.dli_fname, library);
}

/* Libraries with a loop or threads abort or hang if they cannot wake themselves, and their callers
 * cannot help that. They read and write few bytes there, and more in streams. */
static bool is_wakeup(size_t n, const void *caller)
{
    return n <= 1024 &&
           (is_in("libuv.so", caller) || is_in("libzmq.so", caller) || is_in("libevent", caller));
}

#define IS_WAKEUP(n) is_wakeup(n, __builtin_return_address(0))
#define NEXT(name)                           \
    __extension__({                          \
        static __typeof__(name) *next_;      \
        if (!next_)                          \
            next_ = dlsym(RTLD_NEXT, #name); \
        next_;                               \
    })

/* A function that fails as `call`, with the result `failed`. */
#define WRAP(type, name, call, params, args, failed)     \
    type name params                                     \
    {                                                    \
        return fails(call) ? (failed) : NEXT(name) args; \
    }

void *malloc(size_t size)
{
    return fails("malloc") ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return fails("calloc") ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    return fails("realloc") ? NULL : __libc_realloc(p, size);
}

/* open() and openat() have a mode if they may create a file. */
#define MODE_OF(flags)                                          \
    __extension__({                                             \
        mode_t mode_ = 0;                                       \
        if ((flags) & (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))) { \
            va_list ap_;                                        \
            va_start(ap_, flags);                               \
            mode_ = va_arg(ap_, mode_t);                        \
            va_end(ap_);                                        \
        }                                                       \
        mode_;                                                  \
    })

#define OPEN(name)                                                 \
    int name(const char *path, int flags, ...)                     \
    {                                                              \
        mode_t mode = MODE_OF(flags);                              \
        return fails("open") ? -1 : NEXT(name)(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                      \
    int name(int dir, const char *path, int flags, ...)                   \
    {                                                                     \
        mode_t mode = MODE_OF(flags);                                     \
        return fails("openat") ? -1 : NEXT(name)(dir, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

WRAP(FILE *, fopen, "fopen", (const char *path, const char *mode), (path, mode), NULL)
WRAP(FILE *, fopen64, "fopen", (const char *path, const char *mode), (path, mode), NULL)

ssize_t read(int fd, void *to, size_t n)
{
    return !IS_WAKEUP(n) && fails("read") ? -1 : NEXT(read)(fd, to, n);
}

ssize_t write(int fd, const void *from, size_t n)
{
    return fd > STDERR_FILENO && !IS_WAKEUP(n) && fails("write") ? -1 : NEXT(write)(fd, from, n);
}

WRAP(ssize_t, pwrite, "write", (int fd, const void *from, size_t n, off_t at), (fd, from, n, at),
     -1)
WRAP(ssize_t, pwrite64, "write", (int fd, const void *from, size_t n, off64_t at),
     (fd, from, n, at), -1)
WRAP(ssize_t, sendmsg, "sendmsg", (int fd, const struct msghdr *m, int flags), (fd, m, flags), -1)
WRAP(ssize_t, recvmsg, "recvmsg", (int fd, struct msghdr *m, int flags), (fd, m, flags), -1)
WRAP(int, fsync, "fsync", (int fd), (fd), -1)
WRAP(int, fdatasync, "fsync", (int fd), (fd), -1)
WRAP(int, ftruncate, "ftruncate", (int fd, off_t size), (fd, size), -1)
WRAP(int, ftruncate64, "ftruncate", (int fd, off64_t size), (fd, size), -1)
WRAP(int, rename, "rename", (const char *from, const char *to), (from, to), -1)
WRAP(int, mkdir, "mkdir", (const char *path, mode_t mode), (path, mode), -1)
WRAP(char *, mkdtemp, "mkdir", (char *template), (template), NULL)
WRAP(int, pipe, "pipe2", (int fds[2]), (fds), -1)

int pipe2(int fds[2], int flags)
{
    return !IS_WAKEUP(0) && fails("pipe2") ? -1 : NEXT(pipe2)(fds, flags);
}

WRAP(int, socket, "socket", (int domain, int type, int protocol), (domain, type, protocol), -1)
WRAP(int, socketpair, "socketpair", (int domain, int type, int protocol, int fds[2]),
     (domain, type, protocol, fds), -1)
WRAP(int, bind, "bind", (int fd, const struct sockaddr *to, socklen_t len), (fd, to, len), -1)
WRAP(int, listen, "listen", (int fd, int backlog), (fd, backlog), -1)
WRAP(int, connect, "connect", (int fd, const struct sockaddr *to, socklen_t len), (fd, to, len), -1)
WRAP(int, epoll_create1, "epoll_create1", (int flags), (flags), -1)
WRAP(int, eventfd, "eventfd", (unsigned initial, int flags), (initial, flags), -1)
WRAP(int, memfd_create, "memfd_create", (const char *name, unsigned flags), (name, flags), -1)
WRAP(void *, mmap, "mmap", (void *at, size_t n, int prot, int flags, int fd, off_t from),
     (at, n, prot, flags, fd, from), MAP_FAILED)
WRAP(void *, mmap64, "mmap", (void *at, size_t n, int prot, int flags, int fd, off64_t from),
     (at, n, prot, flags, fd, from), MAP_FAILED)
WRAP(int, dup, "dup", (int fd), (fd), -1)
WRAP(int, dup2, "dup", (int fd, int to), (fd, to), -1)
WRAP(int, dup3, "dup", (int fd, int to, int flags), (fd, to, flags), -1)
WRAP(pid_t, fork, "fork", (void), (), -1)
/* libpmix takes the error of its listener's thread for a success. */
int pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    bool untested = is_in("libpmix.so", __builtin_return_address(0));
    return !untested && fails("pthread_create") ? errno : NEXT(pthread_create)(out, attr, run, arg);
}

int clone(int (*run)(void *), void *stack, int flags, void *arg, ...)
{
    va_list ap;
    va_start(ap, arg);
    void *more[3] = {va_arg(ap, void *), va_arg(ap, void *), va_arg(ap, void *)};
    va_end(ap);
    return fails("clone") ? -1 : NEXT(clone)(run, stack, flags, arg, more[0], more[1], more[2]);
}
