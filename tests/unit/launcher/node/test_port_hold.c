/* port_hold: the port is held against other processes, but open to the rank that listens. */
#include "launcher/node/port_hold.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "common/mem.h"
#include "tests/unit/test.h"

/* Returns a socket bound to `port`, as a rank would open it; -errno on failure. */
static int taker(int family, int port, int reuse, int listening)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    AUTO(fd) int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    int rc = family == AF_INET6 ? bind(fd, (struct sockaddr *)&six, sizeof six)
                                : bind(fd, (struct sockaddr *)&four, sizeof four);
    if (rc < 0 || (listening && listen(fd, 5) < 0))
        return -errno;
    return fd_take(&fd);
}

TEST(a_free_port_is_held_and_a_listener_with_reuseaddr_gets_it)
{
    AUTO(fd) int held = -1;
    int port = 0;
    CHECK_INT(port_hold(&held, &port, 0, NULL), 0);
    CHECK(port > 0 && held >= 0);
    AUTO(fd) int listener = taker(AF_INET, port, 1, 1);
    CHECK(listener >= 0);
}

TEST(one_without_reuseaddr_is_kept_out)
{
    AUTO(fd) int held = -1;
    int port = 0;
    CHECK_INT(port_hold(&held, &port, 0, NULL), 0);
    CHECK_INT(taker(AF_INET, port, 0, 1), -EADDRINUSE);
}

TEST(many_at_once_are_all_different)
{
    enum { N = 200 };
    int fds[N], ports[N];
    for (int i = 0; i < N; i++) {
        CHECK_INT(port_hold(&fds[i], &ports[i], 0, NULL), 0);
        for (int k = 0; k < i; k++)
            CHECK(ports[k] != ports[i]);
    }
}

TEST(a_wanted_port_that_somebody_listens_on_is_an_error_that_names_them)
{
    AUTO(fd) int held = -1;
    int port = 0;
    CHECK_INT(port_hold(&held, &port, 0, NULL), 0);
    AUTO(fd) int listener = taker(AF_INET, port, 1, 1);
    CHECK(listener >= 0);
    close(fd_take(&held));
    struct err e = {0};
    CHECK_INT(port_hold(&held, &(int){0}, port, &e), -EADDRINUSE);
    CHECK_INT(held, -1);
    char pid[32];
    snprintf(pid, sizeof pid, "process %d (", (int)getpid());
    CHECK_HAS(e.text, pid);
    close(fd_take(&listener));
    int got = 0;
    CHECK_INT(port_hold(&held, &got, port, &e), 0);
    CHECK_INT(got, port);
}

TEST(a_wanted_port_that_another_holds_for_its_job_is_an_error_that_names_it)
{
    struct err e = {0};
    int held = -1, port = 0, again = -1;
    CHECK_INT(port_hold(&held, &port, 0, &e), 0);
    CHECK_INT(port_hold(&again, &(int){0}, port, &e), -EADDRINUSE);
    char pid[32];
    snprintf(pid, sizeof pid, "by process %d", (int)getpid());
    CHECK_HAS(e.text, pid);
    CHECK_INT(again, -1);
    close(held);
    CHECK_INT(port_hold(&again, &(int){0}, port, &e), 0);
    close(again);
}

TEST(what_is_no_port_is_an_error)
{
    struct err e = {0};
    int fd = -1, port = 0;
    CHECK_INT(port_hold(&fd, &port, 65536, &e), -EINVAL);
    CHECK_INT(port_hold(&fd, &port, -1, &e), -EINVAL);
}

TEST(the_first_free_port_of_a_range_is_held)
{
    struct err e = {0};
    int fds[3] = {-1, -1, -1}, port = 0, first = 0;
    CHECK_INT(port_hold(&fds[0], &first, 0, &e), 0);
    AUTO(fd) int listener = taker(AF_INET6, first + 1, 1, 1); /* may fail: another process has it */
    CHECK_INT(port_hold_in(&fds[1], &port, (struct host_port_range){first, 65535}, &e), 0);
    CHECK(port > first + 1);
    const struct host_port_range both = {first, first + 1};
    CHECK_INT(port_hold_in(&fds[2], &port, both, &e), -EADDRINUSE);
    CHECK_INT(fds[2], -1);
    AUTO(free) char *range = xasprintf("--port-range %d-%d: no free port", first, first + 1);
    CHECK_HAS(e.text, range);
    CHECK_HAS(e.hint, "wider range");
    close(fds[0]);
    CHECK_INT(port_hold_in(&fds[2], &port, both, &e), 0);
    CHECK_INT(port, first);
    close(fds[1]);
    close(fds[2]);
}
