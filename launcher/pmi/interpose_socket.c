#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/mem.h"
#include "launcher/pmi/interpose.h"

enum { TRANSFER_WAIT_NS = 1000000 };

/* These are mutable static data: bind() and accept() have no argument for them, and libpmix has one
 * server per process. */
static _Thread_local int offered = -1; /* the socket for the next bind() of this thread */
static atomic_int transferred = -1;    /* libpmix's number of that socket */
static interpose_accept_fn *accept_transferred;
static void *accept_arg;
static pthread_mutex_t transfer = PTHREAD_MUTEX_INITIALIZER; /* held during a transfer */

/* The replacements of bind() and accept(). They have other names in C, so that this file can use
 * libc's declarations. Without a transfer they do the same as libc's functions. */
int interpose_bind(int fd, const void *address, socklen_t len) __asm__("bind")
    __attribute__((visibility("default")));
int interpose_accept(int fd, void *address, socklen_t *len) __asm__("accept")
    __attribute__((visibility("default")));

static void close_offered(void)
{
    const int fd = fd_take(&offered);
    auto_fd(&fd);
}

int interpose_bind(int fd, const void *address, socklen_t len)
{
    if (offered < 0)
        return (int)syscall(SYS_bind, fd, address, len);
    int rc = dup3(offered, fd, O_CLOEXEC);
    close_offered();
    if (rc < 0)
        return rc;
    atomic_store(&transferred, fd);
    return 0;
}

/* Waits for the end of a transfer, but not long: libpmix 5 accepts on the thread that also handles
 * what the transfer waits for. libpmix then tries again, since the socket is still readable. */
static bool transfer_ends_soon(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += TRANSFER_WAIT_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_mutex_clocklock(&transfer, CLOCK_MONOTONIC, &until) != 0)
        return false;
    pthread_mutex_unlock(&transfer);
    return true;
}

int interpose_accept(int fd, void *address, socklen_t *len)
{
    if (fd < 0 || fd != atomic_load(&transferred))
        return (int)syscall(SYS_accept, fd, address, len);
    if (transfer_ends_soon())
        return accept_transferred(accept_arg, fd, address, len);
    errno = EAGAIN;
    return -1;
}

void interpose_transfer_socket(int fd, interpose_accept_fn *accept_fn, void *arg)
{
    pthread_mutex_lock(&transfer);
    accept_transferred = accept_fn;
    accept_arg = arg;
    offered = fd;
}

void interpose_forget_socket(void)
{
    atomic_store(&transferred, -1);
}

bool interpose_end_transfer(void)
{
    bool bound = offered < 0;
    close_offered();
    pthread_mutex_unlock(&transfer);
    return bound;
}
