#include "common/tcp_peer.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/listen.h"
#include "common/mem.h"

enum { WORDS = 4, TEXT_SIZE = 64, MAPPED_DIGITS = 24 };

/* One end of a connection. An address of IPv4 is a mapped one of IPv6: ::ffff:127.0.0.1. */
struct end {
    struct in6_addr address;
    in_port_t port; /* in network order */
};

/* The two ends, as the other end sees them. */
struct ends {
    struct end own, other;
};

static int find_end(struct end *out, int (*call)(int, struct sockaddr *, socklen_t *), int fd)
{
    struct listen_address a = {.size = sizeof a.at};
    if (call(fd, &a.at.any, &a.size) < 0)
        return -errno;
    if (a.at.any.sa_family == AF_INET6) {
        *out = (struct end){a.at.v6.sin6_addr, a.at.v6.sin6_port};
        return 0;
    }
    out->address = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    out->address.s6_addr32[WORDS - 1] = a.at.v4.sin_addr.s_addr;
    out->port = a.at.v4.sin_port;
    return a.at.any.sa_family == AF_INET ? 0 : -EAFNOSUPPORT;
}

static int query_netlink(uid_t *out, const struct ends *ends)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 diag;
    } query = {{.nlmsg_len = sizeof query,
                .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                .nlmsg_flags = NLM_F_REQUEST},
               {.sdiag_family = AF_INET6,
                .sdiag_protocol = IPPROTO_TCP,
                .idiag_states = ~0U,
                .id = {.idiag_sport = ends->own.port,
                       .idiag_dport = ends->other.port,
                       .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}}};
    union {
        struct nlmsghdr head;
        char bytes[1024];
    } answer = {0};
    bool v4 = IN6_IS_ADDR_V4MAPPED(&ends->own.address);
    query.diag.sdiag_family = v4 ? AF_INET : AF_INET6;
    for (int i = 0; i < (v4 ? 1 : WORDS); i++) {
        int word = v4 ? WORDS - 1 : i;
        query.diag.id.idiag_src[i] = ends->own.address.s6_addr32[word];
        query.diag.id.idiag_dst[i] = ends->other.address.s6_addr32[word];
    }
    AUTO(fd) int sock = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (sock < 0 || send(sock, &query, sizeof query, 0) < 0)
        return -errno;
    /* The answer has already arrived */
    ssize_t n = recv(sock, &answer, sizeof answer, MSG_DONTWAIT);
    const struct inet_diag_msg *m = NLMSG_DATA(&answer.head);
    /* A socket that no process has open has no inode, and the user 0 */
    if (n < (ssize_t)NLMSG_LENGTH(sizeof *m) || answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        m->idiag_inode == 0)
        return -ENOENT;
    *out = m->idiag_uid;
    return 0;
}

/* Writes an end as /proc/net/tcp6 has it: the words of the address, and the port. */
static void write_end(char *out, const struct end *end)
{
    const uint32_t *w = end->address.s6_addr32;
    snprintf(out, TEXT_SIZE, "%08X%08X%08X%08X:%04X", w[0], w[1], w[2], w[3], ntohs(end->port));
}

/* In /proc/net/tcp, `field` is the last word of the address, and the port. */
static bool is_end(const char *field, const char *end, bool v4)
{
    return strcmp(field, end + (v4 ? MAPPED_DIGITS : 0)) == 0;
}

static int read_proc(uid_t *out, const struct ends *ends, const char *path, bool v4)
{
    AUTO(file) FILE *f = fopen(path, "re");
    char line[512], own[TEXT_SIZE], other[TEXT_SIZE];
    write_end(own, &ends->own);
    write_end(other, &ends->other);
    while (f && fgets(line, sizeof line, f)) {
        char own_field[TEXT_SIZE], other_field[TEXT_SIZE];
        unsigned uid;
        unsigned long inode;
        if (sscanf(line, " %*d: %63s %63s %*x %*x:%*x %*x:%*x %*x %u %*d %lu", own_field,
                   other_field, &uid, &inode) == 4 &&
            is_end(own_field, own, v4) && is_end(other_field, other, v4) && inode != 0) {
            *out = uid;
            return 0;
        }
    }
    return -ENOENT;
}

int tcp_peer_uid(uid_t *out, int fd)
{
    struct ends ends;
    int rc = find_end(&ends.own, getpeername, fd);
    if (rc == 0)
        rc = find_end(&ends.other, getsockname, fd);
    if (rc < 0 || query_netlink(out, &ends) == 0)
        return rc;
    /* A socket of IPv6 may be connected to an address of IPv4 */
    if (IN6_IS_ADDR_V4MAPPED(&ends.own.address) &&
        read_proc(out, &ends, "/proc/net/tcp", true) == 0)
        return 0;
    return read_proc(out, &ends, "/proc/net/tcp6", false);
}

bool tcp_peer_is_trusted(int fd)
{
    uid_t uid;
    return tcp_peer_uid(&uid, fd) == 0 && (uid == geteuid() || uid == 0);
}
