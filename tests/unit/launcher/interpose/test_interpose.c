/* interpose: the replacements in this process. tests/e2e/test_interpose.py shows that the libraries
 * call them. */
#include "launcher/interpose/interpose.h"

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

static void *accept_one(void *arg)
{
    int *fds = arg; /* the listener; the result */
    fds[1] = accept(fds[0], NULL, NULL);
    return NULL;
}

TEST(the_next_bind_gets_the_socket_and_accept_waits_for_the_end_of_the_transfer)
{
    struct sockaddr_in at, other = {.sin_family = AF_INET};
    int client_first = -1, fds[2] = {socket(AF_INET, SOCK_STREAM, 0), -1};
    int listener = open_listener(&at);
    client_first = connect_to(&at); /* waits at the socket */
    interpose_transfer_socket(listener, accept_marked, NULL);
    CHECK_INT(bind(fds[0], (struct sockaddr *)&other, sizeof other), 0);
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, accept_one, fds), 0);
    usleep(50000);
    CHECK_INT(__atomic_load_n(&fds[1], __ATOMIC_RELAXED), -1);
    CHECK(interpose_end_transfer());
    pthread_join(thread, NULL);
    CHECK(fds[1] >= 0);
    CHECK_INT(write(client_first, "x", 1), 1);
    char c;
    CHECK_INT(read(fds[1], &c, 1), 1);
    CHECK_INT(accepts, 1);
    interpose_forget_socket();
    (void)connect_to(&at);
    CHECK(accept(fds[0], NULL, NULL) >= 0);
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
