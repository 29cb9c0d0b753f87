/* pmix_accept_peer_uid: the user of the other end, from netlink or from /proc. */
#include "launcher/pmi/pmix_accept.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/unit/launcher/pmi/kit_tcp.h"
#include "tests/unit/test.h"

TEST(the_own_user_is_found)
{
    struct sockaddr_in at;
    int listener = kit_tcp_listen(&at), client = kit_tcp_connect(&at);
    int fd = accept(listener, NULL, NULL);
    uid_t uid = 12345;
    CHECK_INT(pmix_accept_peer_uid(&uid, fd), 0);
    CHECK_INT(uid, geteuid());
    close(client);
}

TEST(another_user_is_found)
{
    if (geteuid() != 0)
        SKIP("needs root, to connect as another user");
    struct sockaddr_in at;
    int listener = kit_tcp_listen(&at);
    CHECK_INT(seteuid(12345), 0);
    int client = kit_tcp_connect(&at);
    CHECK_INT(seteuid(0), 0);
    int fd = accept(listener, NULL, NULL);
    uid_t uid = 0;
    CHECK_INT(pmix_accept_peer_uid(&uid, fd), 0);
    CHECK_INT(uid, 12345);
    close(client);
}

TEST(a_socket_of_another_kind_is_an_error)
{
    int ends[2];
    uid_t uid;
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    CHECK_INT(pmix_accept_peer_uid(&uid, ends[0]), -EAFNOSUPPORT);
    CHECK_INT(pmix_accept_peer_uid(&uid, -1), -EBADF);
}
