#include "launcher/pmi/pmix_accept.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/tcp_peer.h"
#include "launcher/pmi/pmix_greeting.h"

enum {
    /* Connections without a greeting; this is more than a node has ranks */
    WAITING_MAX = 1024,
    GREETING_MAX = 64 << 10, /* bytes of a greeting, which usually has about 100 */
    FULL_MS = 100            /* between attempts if no descriptor is free */
};

enum greeting { GREETING_MISSING, GREETING_ARRIVED, GREETING_INVALID };

/* The header of every message of libpmix 2 to 6. A greeting is sent before the rank has a peer
 * index and a tag: both are -1. */
struct header {
    uint32_t peer_index, tag;
    size_t bytes; /* number of bytes that follow */
};

struct connection {
    int fd;
    int64_t until_ms;
};

struct pmix_accept {
    struct connection waiting[WAITING_MAX]; /* the oldest first */
    int count, limit_ms;
    int stop_fd; /* eventfd */
    atomic_bool stopped;
    bool rejection_logged;
    bool native; /* the security module of libpmix is "native" (pmix_greeting.h) */
};

/* ---- the acceptor --------------------------------------------------------------------------- */

int pmix_accept_open(struct pmix_accept **out, int limit_ms, struct err *e)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return err_set(e, -errno, "PMIx: eventfd: %s", strerror(errno));
    *out = xzalloc(sizeof **out);
    (*out)->stop_fd = fd;
    (*out)->limit_ms = limit_ms;
    (*out)->native = !getenv("PMIX_MCA_psec"); /* else the user has chosen others */
    return 0;
}

static int take(struct pmix_accept *a, int i)
{
    int fd = a->waiting[i].fd;
    a->count--;
    memmove(&a->waiting[i], &a->waiting[i + 1], (size_t)(a->count - i) * sizeof a->waiting[0]);
    return fd;
}

void pmix_accept_close(struct pmix_accept *a)
{
    if (!a)
        return;
    while (a->count > 0)
        close(take(a, 0));
    close(a->stop_fd);
    free(a);
}

void pmix_accept_stop(struct pmix_accept *a)
{
    atomic_store(&a->stopped, true);
    eventfd_write(a->stop_fd, 1);
}

/* Makes the socket readable only when `bytes` bytes have arrived. */
static void set_low_water(int fd, size_t bytes)
{
    const int low_water = (int)bytes;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low_water, sizeof low_water);
}

/* Examines the greeting without removing it from the socket. */
static enum greeting examine(const struct pmix_accept *a, int fd)
{
    struct header h;
    int arrived = 0;
    if (ioctl(fd, FIONREAD, &arrived) < 0)
        return GREETING_INVALID;
    if (arrived < (int)sizeof h)
        return GREETING_MISSING;
    if (recv(fd, &h, sizeof h, MSG_PEEK | MSG_DONTWAIT) != sizeof h || h.peer_index != UINT32_MAX ||
        h.tag != UINT32_MAX || h.bytes > GREETING_MAX)
        return GREETING_INVALID;
    const size_t whole = sizeof h + h.bytes;
    if ((size_t)arrived < whole) {
        set_low_water(fd, whole);
        return GREETING_MISSING;
    }
    const struct pmix_greeting_user user = {geteuid(), getegid()};
    AUTO(free) char *bytes = xzalloc(whole);
    return recv(fd, bytes, whole, MSG_PEEK | MSG_DONTWAIT) == (ssize_t)whole &&
                   pmix_greeting_is_valid(bytes + sizeof h, h.bytes, a->native ? &user : NULL)
               ? GREETING_ARRIVED
               : GREETING_INVALID;
}

static bool is_own(struct pmix_accept *a, int fd)
{
    uid_t uid;
    int rc = tcp_peer_uid(&uid, fd);
    if (rc == 0 && uid == geteuid())
        return true;
    if (rc == 0 && !a->rejection_logged)
        log_warn("PMIx: rejected a connection of user %u", (unsigned)uid);
    a->rejection_logged |= rc == 0;
    return false;
}

/* Adds a connection to those that wait for their greetings. Closes the oldest one if too many
 * wait. */
static void add(struct pmix_accept *a, int fd)
{
    if (a->count == WAITING_MAX)
        close(take(a, 0));
    a->waiting[a->count++] = (struct connection){fd, clock_ms() + a->limit_ms};
}

/* Accepts the connections that wait at the listener. Returns the first one that has sent its
 * greeting, or -1. */
static int accept_new(struct pmix_accept *a, int listener)
{
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        set_low_water(fd, sizeof(struct header));
        enum greeting greeting = is_own(a, fd) ? examine(a, fd) : GREETING_INVALID;
        if (greeting == GREETING_ARRIVED)
            return fd;
        if (greeting == GREETING_MISSING)
            add(a, fd);
        else
            close(fd);
    }
    if (errno != EMFILE && errno != ENFILE)
        return -1;
    if (a->count > 0)
        close(take(a, 0));
    poll(NULL, 0, FULL_MS);
    return -1;
}

/* Waits until a descriptor is ready, or until the oldest connection must be closed. Returns a
 * connection whose greeting has arrived, or -1. */
static int wait_for_greeting(struct pmix_accept *a, int listener)
{
    struct pollfd polls[WAITING_MAX + 2];
    const int n = a->count;
    for (int i = 0; i < n; i++)
        polls[i] = (struct pollfd){.fd = a->waiting[i].fd, .events = POLLIN | POLLRDHUP};
    polls[n] = (struct pollfd){.fd = listener, .events = POLLIN};
    polls[n + 1] = (struct pollfd){.fd = a->stop_fd, .events = POLLIN};
    int64_t left_ms = a->waiting[0].until_ms - clock_ms(), now;
    (void)poll(polls, (nfds_t)n + 2, left_ms > 0 ? (int)left_ms : 0);
    now = clock_ms();
    for (int i = n - 1; i >= 0; i--) {
        enum greeting greeting = polls[i].revents ? examine(a, a->waiting[i].fd) : GREETING_MISSING;
        if (greeting == GREETING_ARRIVED)
            return take(a, i);
        if (greeting == GREETING_INVALID || polls[i].revents & ~POLLIN ||
            a->waiting[i].until_ms <= now)
            close(take(a, i));
    }
    return -1;
}

/* Makes libpmix call accept() again, since connections still wait. libpmix calls accept() once
 * whenever its select() finds the listener readable. So this opens a connection to the listener and
 * closes it immediately. */
static void request_call(int listener)
{
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    AUTO(fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && getsockname(listener, (struct sockaddr *)&at, &len) == 0)
        /* May fail if other connections are in the queue */
        (void)connect(fd, (struct sockaddr *)&at, len);
}

int pmix_accept_next(void *arg, int listener, struct sockaddr *address, socklen_t *len)
{
    struct pmix_accept *a = arg;
    int fd = -1;
    while (!atomic_load(&a->stopped) && (fd = accept_new(a, listener)) < 0 && a->count > 0 &&
           (fd = wait_for_greeting(a, listener)) < 0)
        ;
    if (fd < 0) {
        errno = EAGAIN;
        return -1;
    }
    set_low_water(fd, 1);
    if (a->count > 0)
        request_call(listener);
    if (address && getpeername(fd, address, len) < 0)
        *len = 0; /* the rank has died; libpmix notices that itself */
    return fd;
}
