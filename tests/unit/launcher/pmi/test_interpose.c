/* interpose: the replacements in this process. tests/e2e/test_interpose.py shows that the libraries
 * call them. */
#include "launcher/pmi/interpose.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <pmix_common.h>
#include <pthread.h>
#include <sys/socket.h>

#include "tests/unit/test.h"

static int open_listener(struct sockaddr_in *at)
{
    socklen_t len = sizeof *at;
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_INT(bind(fd, (struct sockaddr *)at, len), 0);
    CHECK_INT(listen(fd, 5), 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)at, &len), 0);
    return fd;
}

static int connect_to(const struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_INT(connect(fd, (const struct sockaddr *)at, sizeof *at), 0);
    return fd;
}

TEST(the_variable_disables_interposition)
{
    unsetenv("DROVER_NO_INTERPOSE");
    CHECK(interpose_enabled());
    setenv("DROVER_NO_INTERPOSE", "", 1);
    CHECK(interpose_enabled());
    setenv("DROVER_NO_INTERPOSE", "0", 1);
    CHECK(interpose_enabled());
    setenv("DROVER_NO_INTERPOSE", "1", 1);
    CHECK(!interpose_enabled());
}

TEST(without_a_transfer_bind_and_accept_are_libc_s)
{
    struct sockaddr_in at;
    int listener = open_listener(&at), client = connect_to(&at);
    struct sockaddr_in peer, own;
    socklen_t len = sizeof peer;
    int fd = accept(listener, (struct sockaddr *)&peer, &len);
    CHECK(fd >= 0);
    len = sizeof own;
    CHECK_INT(getsockname(client, (struct sockaddr *)&own, &len), 0);
    CHECK_INT(peer.sin_port, own.sin_port);
    CHECK_INT(bind(-1, (struct sockaddr *)&at, sizeof at), -1);
    CHECK_INT(errno, EBADF);
    CHECK_INT(accept(-1, NULL, NULL), -1);
    CHECK_INT(errno, EBADF);
}

static int accepts; /* calls of accept_marked() */

static int accept_marked(void *arg, int fd, struct sockaddr *address, unsigned *len)
{
    accepts++;
    return accept4(fd, address, len, 0);
}

/* libpmix accepts on its own thread. */
static void *accept_during_transfer(void *arg)
{
    const int *listener = arg;
    CHECK_INT(accept(*listener, NULL, NULL), -1);
    CHECK_INT(errno, EAGAIN);
    return NULL;
}

TEST(the_next_bind_gets_the_socket_and_accept_succeeds_after_the_transfer)
{
    struct sockaddr_in at, other = {.sin_family = AF_INET};
    int bound = socket(AF_INET, SOCK_STREAM, 0);
    int listener = open_listener(&at);
    int client_first = connect_to(&at); /* waits at the socket */
    interpose_transfer_socket(listener, accept_marked, NULL);
    CHECK_INT(bind(bound, (struct sockaddr *)&other, sizeof other), 0);
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, accept_during_transfer, &bound), 0);
    pthread_join(thread, NULL);
    CHECK_INT(accepts, 0);
    CHECK(interpose_end_transfer());
    int accepted = accept(bound, NULL, NULL);
    CHECK(accepted >= 0);
    CHECK_INT(write(client_first, "x", 1), 1);
    char c;
    CHECK_INT(read(accepted, &c, 1), 1);
    CHECK_INT(accepts, 1);
    interpose_forget_socket();
    (void)connect_to(&at);
    CHECK(accept(bound, NULL, NULL) >= 0);
    CHECK_INT(accepts, 1);
}

TEST(a_socket_that_nothing_binds_is_closed)
{
    struct sockaddr_in at;
    int listener = open_listener(&at), client = connect_to(&at);
    interpose_transfer_socket(listener, accept_marked, NULL);
    CHECK(!interpose_end_transfer());
    char c;
    CHECK(read(client, &c, 1) <= 0);
}

pmix_status_t pmix_ptl_base_send_blocking(int sock, char *bytes, size_t len);

TEST(a_greeting_arrives_and_a_rank_that_died_is_not_an_error)
{
    int fds[2];
    char greeting[] = "hello", got[8] = "";
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    CHECK_INT(pmix_ptl_base_send_blocking(fds[0], greeting, 5), PMIX_SUCCESS);
    CHECK_INT(read(fds[1], got, sizeof got), 5);
    CHECK_STR(got, "hello");
    close(fds[1]);
    CHECK_INT(pmix_ptl_base_send_blocking(fds[0], greeting, 5), PMIX_SUCCESS);
}

TEST(if_disabled_libpmix_greets_by_itself)
{
    int fds[2];
    char greeting[] = "hello";
    void *libpmix = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_GLOBAL);
    CHECK(libpmix);
    setenv("DROVER_NO_INTERPOSE", "1", 1);
    interpose_pmix(libpmix);
    signal(SIGPIPE, SIG_IGN);
    CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    CHECK_INT(pmix_ptl_base_send_blocking(fds[0], greeting, 5), PMIX_SUCCESS);
    close(fds[1]);
    CHECK(pmix_ptl_base_send_blocking(fds[0], greeting, 5) != PMIX_SUCCESS);
}
