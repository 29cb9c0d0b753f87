/* test_tcp_peer - the user of the other end, over IPv4 and IPv6. */
#include "common/tcp_peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/listen.h"
#include "common/mem.h"
#include "tests/unit/test.h"

enum { OTHER_USER = 12345 };

/* A connection; `client` is the other end. */
struct pair {
    int listener, fd, client;
};

/* Connects a client of the user to a server at `host`; NULL: at all addresses, by IPv4. Returns
 * false if this machine lacks IPv6. */
static bool connect_as(struct pair *p, const char *host, uid_t user)
{
    struct listen_address at = listen_everywhere(0), to;
    if (host)
        CHECK_INT(listen_address_read(&at, host, 0), 0);
    bool v6 = at.at.any.sa_family == AF_INET6;
    p->listener = listen_open(&at, LISTEN_REUSE, 4);
    if (p->listener < 0 && v6)
        return false;
    CHECK_INT(listen_address_read(&to, host ? host : "127.0.0.1", listen_port(&at.at.any)), 0);
    CHECK_INT(seteuid(user), 0);
    p->client = socket(to.at.any.sa_family, SOCK_STREAM, 0);
    CHECK_INT(connect(p->client, &to.at.any, to.size), 0);
    CHECK_INT(seteuid(getuid()), 0);
    p->fd = accept(p->listener, NULL, NULL);
    return true;
}

static void end(const struct pair *p)
{
    close(p->fd);
    close(p->listener);
    if (p->client >= 0)
        close(p->client);
}

/* A server at all addresses has IPv4 connections as mapped addresses of IPv6. */
static const char *const hosts[] = {"127.0.0.1", "::1", NULL};

TEST(the_own_user_is_found)
{
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        struct pair p;
        uid_t uid = OTHER_USER;
        if (!connect_as(&p, hosts[i], geteuid()))
            continue;
        CHECK_INT(tcp_peer_uid(&uid, p.fd), 0);
        CHECK_INT(uid, geteuid());
        CHECK(tcp_peer_is_trusted(p.fd));
        end(&p);
    }
}

TEST(another_user_is_found)
{
    if (geteuid() != 0)
        SKIP("needs root, to connect as another user");
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        struct pair p;
        uid_t uid = 0;
        if (!connect_as(&p, hosts[i], OTHER_USER))
            continue;
        CHECK_INT(tcp_peer_uid(&uid, p.fd), 0);
        CHECK_INT(uid, OTHER_USER);
        CHECK(!tcp_peer_is_trusted(p.fd));
        end(&p);
    }
}

TEST(an_end_that_no_process_has_open_has_no_user)
{
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        struct pair p;
        uid_t uid = OTHER_USER;
        if (!connect_as(&p, hosts[i], geteuid()))
            continue;
        close(p.client);
        p.client = -1;
        CHECK_INT(tcp_peer_uid(&uid, p.fd), -ENOENT);
        CHECK_INT(uid, OTHER_USER);
        CHECK(!tcp_peer_is_trusted(p.fd));
        end(&p);
    }
}

TEST(a_socket_of_another_kind_is_an_error)
{
    int ends[2];
    uid_t uid;
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    CHECK_INT(tcp_peer_uid(&uid, ends[0]), -EAFNOSUPPORT);
    CHECK_INT(tcp_peer_uid(&uid, -1), -EBADF);
}
