#include "launcher/pmi/interpose/pmix_listener.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/mem.h"

static _Thread_local int handed = -1; /* to who binds next */
static atomic_int taken = -1;         /* the server's number for it */
static pthread_mutex_t closed = PTHREAD_MUTEX_INITIALIZER;

/* In place of libc's, which libpmix calls by these names (Makefile: --export-dynamic-symbol). */
int lobby_bind(int fd, const void *address, socklen_t len) __asm__("bind")
    __attribute__((visibility("default")));
int lobby_accept(int fd, void *address, socklen_t *len) __asm__("accept")
    __attribute__((visibility("default")));

static void shut(int *fd)
{
    const int it = fd_take(fd);
    auto_fd(&it);
}

int lobby_bind(int fd, const void *address, socklen_t len)
{
    if (handed < 0)
        return (int)syscall(SYS_bind, fd, address, len);
    int rc = dup3(handed, fd, O_CLOEXEC);
    shut(&handed);
    atomic_store(&taken, fd);
    return rc < 0 ? rc : 0;
}

int lobby_accept(int fd, void *address, socklen_t *len)
{
    if (fd == atomic_load(&taken)) {
        pthread_mutex_lock(&closed);
        pthread_mutex_unlock(&closed);
    }
    return (int)syscall(SYS_accept, fd, address, len);
}

static void on_knock(uv_poll_t *p, int status, int events)
{
    struct pmix_listener *l = (struct pmix_listener *)p; /* its first member */
    uv_poll_stop(p);
    l->knocked(l->arg);
}

/* Whom nobody can reach would be waited for in vain. */
static int check_loopback(int fd, struct err *e)
{
    struct ifreq lo = {.ifr_name = "lo"};
    if (ioctl(fd, SIOCGIFFLAGS, &lo) == 0 && lo.ifr_flags & IFF_UP)
        return 0;
    err_set(e, -ENETDOWN, "PMIx: the loopback device is down");
    return err_hint(e, "ip link set lo up; --no-pmix does without it");
}

/* The port. */
static int listen_there(struct pmix_listener *l, struct err *e)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    AUTO(fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, SOMAXCONN) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0)
        return err_set(e, -errno, "PMIx: a socket: %s", strerror(errno));
    int rc = check_loopback(fd, e);
    if (rc < 0)
        return rc;
    l->fd = fd_take(&fd);
    return ntohs(at.sin_port);
}

int pmix_listener_open(struct pmix_listener *l, uv_loop_t *loop, void (*knocked)(void *arg),
                       void *arg, struct err *e)
{
    int port = listen_there(l, e);
    if (port < 0)
        return port;
    int rc = uv_poll_init(loop, &l->knock, l->fd);
    if (rc < 0) {
        shut(&l->fd);
        return err_set(e, rc, "PMIx: %s", uv_strerror(rc));
    }
    l->port = port;
    l->knocked = knocked;
    l->arg = arg;
    for (int i = 0; i < PMIX_LISTENER_KEEPS; i++)
        l->kept[i] = fcntl(l->fd, F_DUPFD_CLOEXEC, 0);
    uv_poll_start(&l->knock, UV_READABLE, on_knock);
    uv_unref((uv_handle_t *)&l->knock);
    return 0;
}

static void give_back(struct pmix_listener *l)
{
    for (int i = 0; i < PMIX_LISTENER_KEEPS; i++)
        shut(&l->kept[i]);
}

void pmix_listener_transfer_fd(struct pmix_listener *l)
{
    give_back(l);
    pthread_mutex_lock(&closed);
    handed = fd_take(&l->fd);
}

bool pmix_listener_enable_accept(void)
{
    bool bound = handed < 0;
    shut(&handed);
    pthread_mutex_unlock(&closed);
    return bound;
}

void pmix_listener_close(struct pmix_listener *l)
{
    uv_poll_stop(&l->knock);
    give_back(l);
    shut(&l->fd);
}
