#include "common/listen.h"

#include <fcntl.h>

#include "common/mem.h"
#include "tests/unit/test.h"

static struct listen_address address(const char *host, int port)
{
    struct listen_address a;
    CHECK_INT(listen_address_read(&a, host, port), 0);
    return a;
}

static bool connects(const char *host, int port)
{
    struct listen_address a = address(host, port);
    AUTO(fd) int fd = socket(a.at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd >= 0 && connect(fd, &a.at.any, a.size) == 0;
}

static bool has_v6(void)
{
    struct listen_address a = address("::1", 0);
    AUTO(fd) int fd = listen_bind(&a, LISTEN_ALONE);
    return fd >= 0;
}

TEST(a_free_port_is_chosen_and_the_socket_is_not_inherited_and_never_blocks)
{
    struct listen_address a = address("localhost", 0);
    AUTO(fd) int fd = listen_open(&a, LISTEN_REUSE, 4);
    CHECK(fd >= 0 && listen_port(&a.at.any) > 0);
    CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC && fcntl(fd, F_GETFL) & O_NONBLOCK);
    CHECK(connects("127.0.0.1", listen_port(&a.at.any)));
    CHECK(!connects("127.0.0.2", listen_port(&a.at.any)));
}

TEST(everywhere_takes_both_families)
{
    struct listen_address a = listen_everywhere(0);
    AUTO(fd) int fd = listen_open(&a, LISTEN_ALONE, 4);
    CHECK(fd >= 0 && listen_is_everywhere(&a.at.any));
    CHECK(connects("127.0.0.1", listen_port(&a.at.any)) &&
          connects("127.0.0.2", listen_port(&a.at.any)));
    CHECK(!has_v6() || connects("::1", listen_port(&a.at.any)));
}

TEST(a_port_in_use_is_an_error_also_with_reuse)
{
    struct listen_address a = listen_everywhere(0);
    AUTO(fd) int fd = listen_open(&a, LISTEN_REUSE, 4);
    for (int reuse = LISTEN_ALONE; reuse <= LISTEN_REUSE; reuse++) {
        struct listen_address same = a, v4 = address("0.0.0.0", listen_port(&a.at.any));
        CHECK_INT(listen_open(&same, (enum listen_reuse)reuse, 4), -EADDRINUSE);
        CHECK_INT(listen_open(&v4, (enum listen_reuse)reuse, 4), -EADDRINUSE);
    }
}

TEST(a_port_that_is_only_reserved_is_shared_with_reuse_alone)
{
    struct listen_address a = listen_everywhere(0);
    AUTO(fd) int reserved = listen_bind(&a, LISTEN_REUSE);
    CHECK(reserved >= 0);
    struct listen_address same = a;
    CHECK_INT(listen_open(&same, LISTEN_ALONE, 4), -EADDRINUSE);
    AUTO(fd) int fd = listen_open(&same, LISTEN_REUSE, 4);
    CHECK(fd >= 0 && listen_port(&same.at.any) == listen_port(&a.at.any));
}

TEST(an_address_of_another_machine_is_an_error)
{
    struct listen_address a = address("192.0.2.1", 0); /* for documentation: nobody has it */
    CHECK_INT(listen_open(&a, LISTEN_REUSE, 4), -EADDRNOTAVAIL);
    CHECK_INT(listen_port(&a.at.any), 0);
}

TEST(addresses_are_told_apart)
{
    const struct {
        const char *host;
        bool loopback, everywhere;
    } cases[] = {{"127.0.0.1", true, false}, {"127.9.9.9", true, false}, {"localhost", true, false},
                 {"::1", true, false},       {"0.0.0.0", false, true},   {"::", false, true},
                 {"10.0.0.1", false, false}, {"fe80::1", false, false}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct listen_address a = address(cases[i].host, 9400), b = listen_address_of(&a.at.any);
        CHECK_INT(listen_is_loopback(&a.at.any), cases[i].loopback);
        CHECK_INT(listen_is_everywhere(&b.at.any), cases[i].everywhere);
        CHECK(listen_port(&b.at.any) == 9400 && b.size == a.size);
    }
    static const char *const wrong[] = {"", "host", "1.2.3", "[::1]", "1.2.3.4:5", "::1%lo"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        CHECK_INT(listen_address_read(&(struct listen_address){0}, wrong[i], 1), -EINVAL);
}
