#include "common/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "common/mem.h"

static struct listen_address v4_address(in_addr_t host, int port)
{
    return (struct listen_address){.at.v4 = {.sin_family = AF_INET,
                                             .sin_port = htons((in_port_t)port),
                                             .sin_addr = {htonl(host)}},
                                   .size = sizeof(struct sockaddr_in)};
}

static struct listen_address v6_address(struct in6_addr host, int port)
{
    return (struct listen_address){
        .at.v6 = {.sin6_family = AF_INET6, .sin6_port = htons((in_port_t)port), .sin6_addr = host},
        .size = sizeof(struct sockaddr_in6)};
}

struct listen_address listen_everywhere(int port)
{
    return v6_address(in6addr_any, port);
}

int listen_address_read(struct listen_address *out, const char *host, int port)
{
    struct in_addr v4 = {htonl(INADDR_LOOPBACK)};
    struct in6_addr v6;
    if (strcmp(host, "localhost") == 0 || inet_pton(AF_INET, host, &v4) == 1)
        *out = v4_address(ntohl(v4.s_addr), port);
    else if (inet_pton(AF_INET6, host, &v6) == 1)
        *out = v6_address(v6, port);
    else
        return -EINVAL;
    return 0;
}

struct listen_address listen_address_of(const struct sockaddr *a)
{
    struct listen_address out = {.size =
                                     a->sa_family == AF_INET ? sizeof out.at.v4 : sizeof out.at.v6};
    memcpy(&out.at, a, out.size);
    return out;
}

int listen_port(const struct sockaddr *a)
{
    struct listen_address l = listen_address_of(a);
    return ntohs(a->sa_family == AF_INET ? l.at.v4.sin_port : l.at.v6.sin6_port);
}

bool listen_is_loopback(const struct sockaddr *a)
{
    struct listen_address l = listen_address_of(a);
    return a->sa_family == AF_INET ? ntohl(l.at.v4.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
                                   : IN6_IS_ADDR_LOOPBACK(&l.at.v6.sin6_addr);
}

bool listen_is_everywhere(const struct sockaddr *a)
{
    struct listen_address l = listen_address_of(a);
    return a->sa_family == AF_INET ? l.at.v4.sin_addr.s_addr == htonl(INADDR_ANY)
                                   : IN6_IS_ADDR_UNSPECIFIED(&l.at.v6.sin6_addr);
}

static int bind_once(struct listen_address *a, enum listen_reuse reuse)
{
    static const int yes = 1, no = 0;
    AUTO(fd) int fd = socket(a->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && a->at.any.sa_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (fd < 0 || (reuse && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) < 0) ||
        bind(fd, &a->at.any, a->size) < 0 || getsockname(fd, &a->at.any, &a->size) < 0)
        return -errno;
    return fd_take(&fd);
}

int listen_bind(struct listen_address *a, enum listen_reuse reuse)
{
    int fd = bind_once(a, reuse);
    if (fd >= 0 || fd == -EADDRINUSE || a->at.any.sa_family != AF_INET6 ||
        !listen_is_everywhere(&a->at.any))
        return fd;
    struct listen_address v4 = v4_address(INADDR_ANY, listen_port(&a->at.any));
    fd = bind_once(&v4, reuse);
    if (fd >= 0)
        *a = v4;
    return fd;
}

int listen_open(struct listen_address *a, enum listen_reuse reuse, int backlog)
{
    AUTO(fd) int fd = listen_bind(a, reuse);
    if (fd < 0)
        return fd;
    return listen(fd, backlog) < 0 ? -errno : fd_take(&fd);
}
