#include "launcher/pmi/tcp_peer.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "common/mem.h"

/* The two ends, as the other end sees them. */
struct ends {
    struct sockaddr_in own, other;
};

static int find_ends(struct ends *e, int fd)
{
    socklen_t own_len = sizeof e->own, other_len = sizeof e->other;
    if (getpeername(fd, (struct sockaddr *)&e->own, &own_len) < 0 ||
        getsockname(fd, (struct sockaddr *)&e->other, &other_len) < 0)
        return -errno;
    return e->own.sin_family == AF_INET ? 0 : -EAFNOSUPPORT;
}

static int query_netlink(uid_t *out, const struct ends *ends)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 diag;
    } query = {{.nlmsg_len = sizeof query,
                .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                .nlmsg_flags = NLM_F_REQUEST},
               {.sdiag_family = AF_INET,
                .sdiag_protocol = IPPROTO_TCP,
                .idiag_states = ~0U,
                .id = {.idiag_sport = ends->own.sin_port,
                       .idiag_dport = ends->other.sin_port,
                       .idiag_src = {ends->own.sin_addr.s_addr},
                       .idiag_dst = {ends->other.sin_addr.s_addr},
                       .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
    union {
        struct nlmsghdr head;
        char bytes[1024];
    } answer = {0};
    AUTO(fd) int sock = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (sock < 0 || send(sock, &query, sizeof query, 0) < 0)
        return -errno;
    /* The answer has already arrived */
    ssize_t n = recv(sock, &answer, sizeof answer, MSG_DONTWAIT);
    if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct inet_diag_msg)) ||
        answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return -ENOENT;
    *out = ((const struct inet_diag_msg *)NLMSG_DATA(&answer.head))->idiag_uid;
    return 0;
}

static int read_proc(uid_t *out, const struct ends *ends)
{
    AUTO(file) FILE *f = fopen("/proc/net/tcp", "re");
    char line[256];
    while (f && fgets(line, sizeof line, f)) {
        unsigned own_address, own_port, other_address, other_port, uid;
        if (sscanf(line, " %*d: %x:%x %x:%x %*x %*x:%*x %*x:%*x %*x %u", &own_address, &own_port,
                   &other_address, &other_port, &uid) != 5)
            continue; /* the header */
        if (own_address != ends->own.sin_addr.s_addr || own_port != ntohs(ends->own.sin_port) ||
            other_address != ends->other.sin_addr.s_addr ||
            other_port != ntohs(ends->other.sin_port))
            continue;
        *out = uid;
        return 0;
    }
    return -ENOENT;
}

int tcp_peer_uid(uid_t *out, int fd)
{
    struct ends ends;
    int rc = find_ends(&ends, fd);
    if (rc == 0 && query_netlink(out, &ends) < 0)
        rc = read_proc(out, &ends);
    return rc;
}
