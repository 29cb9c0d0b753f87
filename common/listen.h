/* listen - the address and the socket of a TCP server, over IPv4 or IPv6. Names of hosts are not
 * resolved: common/host_port.h reads what users write. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

struct listen_address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at;
    socklen_t size;
};

/* All addresses of this machine. Port 0 stands for a free one, here and below. */
struct listen_address listen_everywhere(int port);
/* An IP address without brackets, or "localhost", which is 127.0.0.1.
 *   -EINVAL  `host` is neither */
int listen_address_read(struct listen_address *out, const char *host, int port);
/* A copy of an address of IPv4 or IPv6, such as one of getaddrinfo(). */
struct listen_address listen_address_of(const struct sockaddr *a);

/* These take an address of IPv4 or IPv6. */
int listen_port(const struct sockaddr *a);
/* Returns true if only processes of this machine reach the address. */
bool listen_is_loopback(const struct sockaddr *a);
/* Returns true if the address stands for all addresses of this machine. */
bool listen_is_everywhere(const struct sockaddr *a);

/* How two sockets may share a port. LISTEN_REUSE binds a port whose last connections are still
 * closing, and one that a process has bound with the same option but where it does not listen.
 * LISTEN_ALONE does not. */
enum listen_reuse { LISTEN_ALONE, LISTEN_REUSE };

/* Returns a socket that is bound to `a`, or a negative errno. It is non-blocking and close-on-exec,
 * and the caller closes it. Afterwards `a` has the true port. A socket at listen_everywhere() takes
 * IPv6 and IPv4; on a machine or in a container without IPv6, it and `a` become IPv4. */
int listen_bind(struct listen_address *a, enum listen_reuse reuse);
/* Returns such a socket that listens, with `backlog` connections that wait to be accepted. */
int listen_open(struct listen_address *a, enum listen_reuse reuse, int backlog);
