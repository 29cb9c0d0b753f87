#include "launcher/pmi/pmix_listener.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "common/mem.h"
#include "launcher/pmi/interpose.h"

static void close_fd(int *at)
{
    const int fd = fd_take(at);
    auto_fd(&fd);
}

static void on_readable(uv_poll_t *p, int status, int events)
{
    struct pmix_listener *l = (struct pmix_listener *)p; /* its first member */
    uv_poll_stop(p);
    l->connected(l->arg);
}

/* Checks that the loopback device is up. Without it no rank could connect, and drover would wait
 * for the ranks forever. */
static int check_loopback(int fd, struct err *e)
{
    struct ifreq lo = {.ifr_name = "lo"};
    if (ioctl(fd, SIOCGIFFLAGS, &lo) == 0 && lo.ifr_flags & IFF_UP)
        return 0;
    err_set(e, -ENETDOWN, "PMIx: the loopback device is down");
    return err_hint(e, "ip link set lo up; or run without PMIx: --no-pmix");
}

/* Listens on a free port. Returns the port, or a negative errno. */
static int listen_on_loopback(struct pmix_listener *l, struct err *e)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    AUTO(fd) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, SOMAXCONN) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0)
        return err_set(e, -errno, "PMIx: listen on the loopback device: %s", strerror(errno));
    int rc = check_loopback(fd, e);
    if (rc < 0)
        return rc;
    l->fd = fd_take(&fd);
    return ntohs(at.sin_port);
}

int pmix_listener_open(struct pmix_listener *l, uv_loop_t *loop, void (*connected)(void *arg),
                       void *arg, struct err *e)
{
    int port = listen_on_loopback(l, e);
    if (port < 0)
        return port;
    int rc = uv_poll_init(loop, &l->poll, l->fd);
    if (rc < 0) {
        close_fd(&l->fd);
        return err_set(e, rc, "PMIx: %s", uv_strerror(rc));
    }
    l->port = port;
    l->connected = connected;
    l->arg = arg;
    for (int i = 0; i < PMIX_LISTENER_RESERVED; i++)
        l->reserved[i] = fcntl(l->fd, F_DUPFD_CLOEXEC, 0);
    uv_poll_start(&l->poll, UV_READABLE, on_readable);
    uv_unref((uv_handle_t *)&l->poll);
    return 0;
}

static void close_reserved(struct pmix_listener *l)
{
    for (int i = 0; i < PMIX_LISTENER_RESERVED; i++)
        close_fd(&l->reserved[i]);
}

void pmix_listener_transfer_fd(struct pmix_listener *l, struct pmix_accept *accept)
{
    close_reserved(l);
    interpose_transfer_socket(fd_take(&l->fd), pmix_accept_next, accept);
}

void pmix_listener_close(struct pmix_listener *l)
{
    if (l->port == 0)
        return;
    uv_poll_stop(&l->poll);
    close_reserved(l);
    close_fd(&l->fd);
}
