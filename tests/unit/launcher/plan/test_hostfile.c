#include "launcher/plan/hostfile.h"

#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <netdb.h>
#include <sys/socket.h>

#include "common/strbuf.h"
#include "tests/unit/test.h"

/* "a:4/8 b:0": names, slots and, if limited, max_slots. */
static char *shown(const struct hosts *h)
{
    AUTO(strbuf) struct strbuf b = {0};
    for (int i = 0; i < h->count; i++) {
        strbuf_printf(&b, "%s%s:%d", i ? " " : "", h->at[i].name, h->at[i].slots);
        if (h->at[i].max_slots)
            strbuf_printf(&b, "/%d", h->at[i].max_slots);
        if (h->at[i].port)
            strbuf_printf(&b, "#%d", h->at[i].port);
    }
    return strbuf_take(&b);
}

static void parses(const char *text, const char *expected)
{
    AUTO(hosts) struct hosts *h = NULL;
    struct err e = {0};
    if (hostfile_parse(&h, "hosts", text, &e) < 0)
        FAIL("'%s': %s", text, e.text);
    AUTO(free) char *got = shown(h);
    CHECK_STR(got, expected);
}

TEST(host_files_of_open_mpi_mpich_and_deepspeed_are_read)
{
    parses("aa slots=4\nbb slots=2 max_slots=3\n", "aa:4 bb:2/3");
    parses("aa slots = 4   max-slots=8", "aa:4/8");
    parses("aa count=4\nbb cpu=2\ncc slots=1 slots-max=2\n", "aa:4 bb:2 cc:1/2");
    parses("worker-1 slots=8\nworker-2 slots=8\n", "worker-1:8 worker-2:8");
    parses("aa:4\nbb:2 # MPICH\n", "aa:4 bb:2");
    parses("# nodes\n\n  \t\naa\r\nbb\r\n", "aa:0 bb:0");
    parses("me@aa slots=2\n10.0.0.7:3", "me@aa:2 10.0.0.7:3");
    parses("[fe80::1]:4\n[::2]\nfe80::3%eth0 slots=2\n", "fe80::1:4 ::2:0 fe80::3%eth0:2");
}

TEST(host_files_may_name_the_user_and_port_of_ssh)
{
    parses("aa slots=2 port=22 username=me\nbb user = you\ncc user-name=x port=2222",
           "me@aa:2#22 you@bb:0 x@cc:0#2222");
    parses("aa user=me\naa user=me\n", "me@aa:2");
}

TEST(host_files_may_begin_with_a_byte_order_mark)
{
    parses("\xef\xbb\xbf"
           "aa slots=2\r\nbb slots=1\r\n",
           "aa:2 bb:1");
}

TEST(a_name_that_stands_alone_several_times_has_a_slot_for_each)
{
    parses("aa\naa\nbb\naa\n", "aa:3 bb:0");
    parses("aa slots=2\naa\n", "aa:3");
}

static void refused(const char *text, const char *where, const char *what)
{
    struct hosts *h = NULL;
    struct err e = {0};
    if (hostfile_parse(&h, "hosts", text, &e) != -EINVAL)
        FAIL("'%s' was accepted", text);
    CHECK(h == NULL);
    CHECK_HAS(e.text, where);
    CHECK_HAS(e.text, what);
    CHECK_INT(hostfile_parse(&h, "hosts", text, NULL), -EINVAL);
}

TEST(what_is_malformed_is_named_with_line_and_column)
{
    refused("aa slots=4\nbb slotz=4\n", "hosts:2:4: ", "'slotz'");
    refused("aa slots=x\n", "hosts:1:4: ", "'x'");
    refused("aa slots=0\n", "hosts:1:4: ", "slots");
    refused("aa slots\n", "hosts:1:4: ", "'='");
    refused("aa slots=4 slots=4\n", "hosts:1:12: ", "twice");
    refused("aa:4 slots=4\n", "hosts:1:6: ", "twice");
    refused("aa slots=4 max_slots=2\n", "hosts:1:1: ", "exceed max_slots=2");
    refused("aa port=0\n", "hosts:1:4: ", "out of range (1 to 65535)");
    refused("aa port=22 port=22\n", "hosts:1:12: ", "twice");
    refused("aa user=\n", "hosts:1:4: ", "invalid user name");
    refused("aa user=-o\n", "hosts:1:4: ", "invalid user name '-o'");
    refused("aa user=a user=b\n", "hosts:1:11: ", "twice");
    refused("me@aa user=you\n", "hosts:1:1: ", "its user is given twice");
    refused("aa slots=4\naa slots=4\n", "hosts:2:1: ", "second time");
    refused("  aa:b\n", "hosts:1:3: ", "1 to 65536");
    refused("aa:99999\n", "hosts:1:1: ", "1 to 65536");
    refused("+n0\n", "hosts:1:1: ", "relative");
    refused("-oProxyCommand=x\n", "hosts:1:1: ", "invalid host name");
    refused("a;b\n", "hosts:1:1: ", "invalid host name");
    refused("[::1:4\n", "hosts:1:1: ", "']'");
    refused("\n# nothing\n", "'hosts'", "no host");
    refused("", "'hosts'", "no host");
}

TEST(a_wrong_word_brings_the_nearest_right_one)
{
    struct hosts *h = NULL;
    struct err e = {0};
    hostfile_parse(&h, "hosts", "aa slot=4\n", &e);
    CHECK_STR(e.hint, "slots=N");
    hostfile_parse(&h, "hosts", "aa maxslots=4\n", &e);
    CHECK_HAS(e.hint, "max");
}

static char *listed(const char *list)
{
    AUTO(hosts) struct hosts *h = xzalloc(sizeof *h);
    struct err e = {0};
    return hostfile_list(h, list, &e) < 0 ? xasprintf("%s", e.text) : shown(h);
}

TEST(lists_count_a_slot_for_each_time)
{
    static const char *const cases[][2] = {{"a:4,b:4", "a:4 b:4"},
                                           {"a,a", "a:2"},
                                           {"a,b", "a:1 b:1"},
                                           {"a:2,b,a:3", "a:5 b:1"},
                                           {"[::1]:2,::2", "::1:2 ::2:1"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(free) char *got = listed(cases[i][0]);
        CHECK_STR(got, cases[i][1]);
    }
}

TEST(lists_with_holes_or_relative_hosts_are_refused)
{
    static const char *const bad[][2] = {{"", "missing"},
                                         {"a,", "missing"},
                                         {",a", "missing"},
                                         {"a:0", "1 to"},
                                         {"a:", "1 to"},
                                         {"+n1,a", "relative"},
                                         {"+e2", "relative"},
                                         {"a:x", "1 to"},
                                         {"a b", "invalid host name"},
                                         {"a:65536,a", "'a': more than 65536 slots"}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        AUTO(free) char *got = listed(bad[i][0]);
        CHECK_HAS(got, bad[i][1]);
    }
}

TEST(a_list_has_up_to_16384_hosts_and_one_that_repeats_needs_no_room)
{
    AUTO(strbuf) struct strbuf b = {0};
    for (int i = 0; i < 16384; i++)
        strbuf_printf(&b, "n%d\n", i);
    strbuf_puts(&b, "n0\n");
    AUTO(hosts) struct hosts *h = NULL;
    struct err e = {0};
    CHECK_INT(hostfile_parse(&h, "hosts", strbuf_str(&b), &e), 0);
    CHECK_INT(h->count, 16384);
    CHECK_INT(h->at[0].slots, 2);
    CHECK_STR(hosts_find(h, "n16383")->name, "n16383");
    strbuf_puts(&b, "one-more\n");
    AUTO(hosts) struct hosts *more = NULL;
    CHECK_INT(hostfile_parse(&more, "hosts", strbuf_str(&b), &e), -E2BIG);
    CHECK_HAS(e.text, "hosts:16386:1: more than 16384 hosts");
}

static char *filtered(const char *file, const char *list)
{
    AUTO(hosts) struct hosts *all = NULL, *some = xzalloc(sizeof *some), *h = NULL;
    struct err e = {0};
    CHECK_INT(hostfile_parse(&all, "hosts", file, NULL), 0);
    CHECK_INT(hostfile_list(some, list, NULL), 0);
    return hostfile_filter(&h, all, some, &e) < 0 ? xasprintf("%s", e.text) : shown(h);
}

TEST(a_list_beside_a_host_file_picks_from_it)
{
    static const char *const file = "a slots=4\nb slots=2 max_slots=3\nc\n";
    static const char *const cases[][2] = {
        {"b,a", "b:2/3 a:4"}, {"a:2", "a:2"}, {"a:9", "a:4"},
        {"c", "c:0"},         {"c:2", "c:2"}, {"a,d", "host 'd' is not in the host file"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(free) char *got = filtered(file, cases[i][0]);
        CHECK_STR(got, cases[i][1]);
    }
}

TEST(a_file_is_read_and_one_that_is_not_there_is_named)
{
    char path[] = "/tmp/test_hostfile.XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, "aa slots=2\n", 11) == 11);
    close(fd);
    AUTO(hosts) struct hosts *h = NULL;
    struct err e = {0};
    CHECK_INT(hostfile_read(&h, path, &e), 0);
    CHECK_STR(h->at[0].name, "aa");
    unlink(path);
    struct hosts *none = NULL;
    CHECK_INT(hostfile_read(&none, path, &e), -ENOENT);
    CHECK_HAS(e.text, path);
    CHECK(hostfile_read(&none, "/tmp", &e) < 0);
    CHECK_HAS(e.text, "/tmp");
}

TEST(this_machine_is_known_by_its_names_and_addresses)
{
    char own[HOST_NAME_MAX + 1] = "";
    CHECK_INT(gethostname(own, sizeof own - 1), 0);
    const char *const here[] = {"localhost", "LOCALHOST", "127.0.0.1", "127.0.1.1", "::1", own};
    for (size_t i = 0; i < COUNT_OF(here); i++)
        if (!hostfile_is_here(here[i]))
            FAIL("'%s' is this machine", here[i]);
    if (!strchr(own, '.')) {
        AUTO(free) char *full = xasprintf("%s.example.org", own);
        CHECK(hostfile_is_here(full));
    }
    const char *const far[] = {"198.51.100.1", "2001:db8::1", "no-such-host.invalid",
                               "me@localhost"};
    for (size_t i = 0; i < COUNT_OF(far); i++)
        if (hostfile_is_here(far[i]))
            FAIL("'%s' is not this machine", far[i]);
}

TEST(addresses_of_all_our_interfaces_are_here)
{
    struct ifaddrs *list = NULL;
    CHECK_INT(getifaddrs(&list), 0);
    for (struct ifaddrs *i = list; i; i = i->ifa_next) {
        char text[NI_MAXHOST];
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        if (family != AF_INET && family != AF_INET6)
            continue;
        socklen_t size =
            family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        CHECK_INT(getnameinfo(i->ifa_addr, size, text, sizeof text, NULL, 0, NI_NUMERICHOST), 0);
        if (!hostfile_is_here(text))
            FAIL("'%s' is ours", text);
    }
    freeifaddrs(list);
}

TEST(no_text_of_such_letters_breaks_the_readers)
{
    static const char letters[] = "ab1290:=,[]@+-# \n\tslots max_";
    const char *given = getenv("DROVER_TEST_SEED");
    unsigned seed = given ? (unsigned)atoi(given) : (unsigned)getpid();
    fprintf(stderr, "# DROVER_TEST_SEED=%u\n", seed);
    srand(seed);
    for (int i = 0; i < 20000; i++) {
        char text[40] = "";
        for (int k = 0, n = rand() % (int)(sizeof text - 1); k < n; k++)
            text[k] = letters[(size_t)rand() % (sizeof letters - 1)];
        AUTO(hosts) struct hosts *file = NULL, *list = xzalloc(sizeof *list);
        struct err e = {0};
        if (hostfile_parse(&file, "hosts", text, &e) < 0)
            CHECK(e.text[0] && !file);
        else
            CHECK(file->count > 0 && file->at[0].name[0]);
        (void)hostfile_list(list, text, &e); /* acceptance is not tested here */
    }
}

TEST(several_names_of_this_machine_are_one_host)
{
    AUTO(hosts) struct hosts *h = xzalloc(sizeof *h);
    CHECK_INT(hostfile_list(h, "198.51.100.1:4,localhost:2,198.51.100.2,127.0.0.1:3", NULL), 0);
    hostfile_mark_here(h);
    AUTO(free) char *got = shown(h);
    CHECK_STR(got, "198.51.100.1:4 localhost:5 198.51.100.2:1");
    CHECK(!h->at[0].here && h->at[1].here && !h->at[2].here);
}
