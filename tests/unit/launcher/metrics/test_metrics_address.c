/* test_metrics_address - addresses of --metrics. */
#include "launcher/metrics/metrics_address.h"

#include <sys/utsname.h>

#include "common/mem.h"
#include "tests/unit/test.h"

TEST(an_address_is_a_port_on_loopback_unless_the_user_says_otherwise)
{
    struct utsname u;
    CHECK_INT(uname(&u), 0);
    AUTO(free) char *any = xasprintf("http://%s:9400/metrics", u.nodename);
    const struct {
        const char *text, *url;
    } cases[] = {{"9400", "http://127.0.0.1:9400/metrics"},
                 {"0", "http://127.0.0.1:0/metrics"},
                 {"localhost:65535", "http://127.0.0.1:65535/metrics"},
                 {"10.1.2.3:9400", "http://10.1.2.3:9400/metrics"},
                 {"[::1]:9400", "http://[::1]:9400/metrics"},
                 {"[10.1.2.3]:9400", "http://10.1.2.3:9400/metrics"},
                 {":9400", any},
                 {"0.0.0.0:9400", any}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        AUTO(strbuf) struct strbuf b = {0};
        struct listen_address a;
        struct err e = {0};
        if (metrics_address_parse(&a, cases[i].text, &e) < 0)
            FAIL("%s: %s", cases[i].text, e.text);
        metrics_address_url(&b, &a);
        CHECK_STR(strbuf_str(&b), cases[i].url);
    }
}

TEST(a_malformed_address_is_an_error)
{
    static const char *const wrong[] = {
        "",       "x",         ":",     "host:9400", "1.2.3:9400", "65536",         "-1",
        "+1",     "127.0.0.1", "::1",   "[::1]",     "[::1]:",     "::1:9400",      "[::1:9400",
        "[]9400", "[]:9400",   "9400 ", "9400/x",    "1.2.3.4:x",  "1.2.3.4:99999", "]:80",
        "[:80"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct listen_address a = {.size = 7};
        struct err e = {0};
        if (metrics_address_parse(&a, wrong[i], &e) != -EINVAL)
            FAIL("'%s' is accepted", wrong[i]);
        CHECK_HAS(e.text, "is not an address");
        CHECK_INT(a.size, 7);
    }
}
