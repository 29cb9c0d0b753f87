/* test_host_port - addresses as users write them. */
#include "common/host_port.h"

#include <errno.h>
#include <string.h>

#include "common/mem.h"
#include "tests/unit/test.h"

TEST(an_address_has_several_forms)
{
    static const struct {
        const char *text, *host;
        int port;
        bool only_port;
    } rows[] = {
        {"127.0.0.1:80", "127.0.0.1", 80, false},
        {"[::1]:80", "::1", 80, false},
        {"[::]", "::", -1, false},
        {"host", "host", -1, false},
        {"host:", "host", -1, false},
        {"*:7010", "*", 7010, false},
        {":80", "", 80, false},
        {":", "", -1, false},
        {"8642", "", 8642, true},
        {"0", "", 0, true},
        {"0.0.0.0:65535", "0.0.0.0", 65535, false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        struct host_port a;
        if (host_port_parse(&a, rows[i].text, &e) < 0)
            FAIL("'%s': %s", rows[i].text, e.text);
        CHECK_STR(a.host, rows[i].host);
        CHECK_INT(a.port, rows[i].port);
        CHECK_INT(a.only_port, rows[i].only_port);
    }
}

TEST(what_is_not_an_address_is_an_error_with_the_forms_and_changes_nothing)
{
    static const char *const wrong[] = {"",     "a:b",  "a:99999", "99999",  "[::1",     "[::1]80",
                                        "a:-1", "::1",  "1:2:3",   "a b:1",  "http://a", "[]x",
                                        "[]:1", "a:1 ", "a:+1",    "a:0x10", "tcp://a",  "a:1:2"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct err e = {0};
        struct host_port a = {.port = 7};
        if (host_port_parse(&a, wrong[i], &e) != -EINVAL)
            FAIL("'%s' was accepted", wrong[i]);
        CHECK(strlen(e.text) > 0);
        CHECK_INT(a.port, 7);
    }
    char longest[2 * HOST_PORT_NAME_SIZE];
    memset(longest, 'a', sizeof longest - 1);
    longest[HOST_PORT_NAME_SIZE] = 0;
    struct host_port a;
    CHECK_INT(host_port_parse(&a, longest, NULL), -EINVAL);
    longest[HOST_PORT_NAME_SIZE - 1] = 0;
    CHECK_INT(host_port_parse(&a, longest, NULL), 0);
}

TEST(a_text_of_an_address_reads_back)
{
    static const char *const hosts[] = {"127.0.0.1", "::1", "c01"};
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        struct host_port a;
        AUTO(free) char *text = host_port_text(hosts[i], 7010);
        CHECK_INT(host_port_parse(&a, text, NULL), 0);
        CHECK_STR(a.host, hosts[i]);
        CHECK_INT(a.port, 7010);
    }
}

TEST(a_range_of_ports_has_two_ends_or_one)
{
    static const char *const bad[] = {"",    "x",       "1-",    "-5",    "0-5",
                                      "9-8", "1-65536", "70000", "1-2-3", "1 - 2"};
    struct host_port_range r = {7, 8};
    struct err e = {0};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CHECK_INT(host_port_read_range(&r, bad[i], &e), -EINVAL);
        CHECK(r.first == 7 && r.last == 8);
    }
    CHECK_INT(host_port_read_range(&r, "29500-29510", &e), 0);
    CHECK(r.first == 29500 && r.last == 29510);
    CHECK_INT(host_port_read_range(&r, "65535", &e), 0);
    CHECK(r.first == 65535 && r.last == 65535);
}
