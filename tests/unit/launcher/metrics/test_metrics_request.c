/* test_metrics_request - what strangers send to --metrics. */
#include "launcher/metrics/metrics_request.h"

#include <stdlib.h>

#include "common/mem.h"
#include "common/rng.h"
#include "tests/unit/test.h"

static int status_of(const char *text)
{
    return metrics_request_read(text, strlen(text)).status;
}

TEST(a_request_is_answered_by_its_first_line)
{
    const struct {
        const char *line;
        int status;
    } cases[] = {{"GET /metrics HTTP/1.1", 200},
                 {"GET /metrics HTTP/1.0", 200},
                 {"GET /metrics?format=text HTTP/1.1", 200},
                 {"GET / HTTP/1.1", 404},
                 {"GET /metrics/ HTTP/1.1", 404},
                 {"GET /metric HTTP/1.1", 404},
                 {"GET /metricsx HTTP/1.1", 404},
                 {"GET ?/metrics HTTP/1.1", 404},
                 {"POST /x HTTP/1.1", 404},
                 {"HEAD /metrics HTTP/1.1", 405},
                 {"POST /metrics HTTP/1.1", 405},
                 {"GETS /metrics HTTP/1.1", 405},
                 {"GE /metrics HTTP/1.1", 405},
                 {"GET /metrics", 400},
                 {"GET", 400},
                 {"GET ", 400},
                 {"GET  ", 400},
                 {"GET  HTTP/1.1", 400},
                 {"GET  /metrics HTTP/1.1", 400},
                 {"GET /metrics  HTTP/1.1", 400},
                 {"GET /metrics HTTP/1.1 ", 400},
                 {"GET /metrics HTTP/1.10", 400},
                 {"GET /metrics HTTP/1.", 400},
                 {"GET /metrics HTTP/2.0", 400},
                 {"GET /metrics http/1.1", 400},
                 {"get /metrics HTTP/1.1", 400},
                 {" GET /metrics HTTP/1.1", 400},
                 {"", 400}};
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (int bare = 0; bare < 2; bare++) { /* lines end with LF alone, too */
            const char *end = bare ? "\n" : "\r\n";
            AUTO(free) char *text = xasprintf("%s%sHost: x%s%s", cases[i].line, end, end, end);
            AUTO(free) char *alone = xasprintf("%s%s%s", cases[i].line, end, end);
            if (status_of(text) != cases[i].status || status_of(alone) != cases[i].status)
                FAIL("'%s': %d and %d", cases[i].line, status_of(text), status_of(alone));
        }
}

TEST(an_answer_has_words_and_no_body_for_head)
{
    static const char *const texts[] = {"HEAD /metrics HTTP/1.1\r\n\r\n",
                                        "HEAD /x HTTP/1.1\r\n\r\n", "GET /x HTTP/1.1\r\n\r\n",
                                        "GET /metrics HTTP/1.1\r\n\r\n"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct metrics_request r = metrics_request_read(texts[i], strlen(texts[i]));
        CHECK_INT(r.head, i < 2);
        CHECK(r.reason && (r.status == 200) == !r.text);
    }
}

TEST(a_torn_request_is_awaited_at_each_byte)
{
    static const char text[] = "GET /metrics HTTP/1.1\r\nHost: a\r\nX: \r\r\n\r\n";
    for (size_t n = 0; n < sizeof text - 1; n++)
        CHECK_INT(metrics_request_read(text, n).status, 0);
    CHECK_INT(metrics_request_read(text, sizeof text - 1).status, 200);
}

TEST(what_is_no_http_is_refused_before_its_end)
{
    CHECK_INT(metrics_request_read("\x16\x03\x01\x02", 4).status, 400); /* TLS */
    CHECK_INT(metrics_request_read("\0", 1).status, 400);
    CHECK_INT(status_of("SSH-2.0-client\r\n"), 400);
}

TEST(header_lines_without_an_end_are_too_long)
{
    static char many[METRICS_REQUEST_BYTES_MAX];
    memset(many, 'Y', sizeof many);
    CHECK_INT(metrics_request_read(many, sizeof many - 1).status, 0);
    CHECK_INT(metrics_request_read(many, sizeof many).status, 431);
    memcpy(many, "HEAD /metrics HTTP/1.1\r\n", 24);
    struct metrics_request r = metrics_request_read(many, sizeof many);
    CHECK(r.status == 431 && r.head);
    memcpy(many + sizeof many - 4, "\r\n\r\n", 4);
    CHECK_INT(metrics_request_read(many, sizeof many).status, 405);
}

/* The bytes lie at the end of an allocation, so that a sanitizer sees a read beyond them. */
TEST(random_bytes_are_answered_or_awaited)
{
    static const char alphabet[] = "GET /metricsHEAD?HTTP/1.1 \r\n\r\n\n\n: \0\xff";
    struct rng rng;
    rng_seed(&rng, 7, 0);
    for (int i = 0; i < 200000; i++) {
        size_t len = rng_below(&rng, 64), keep = rng_below(&rng, 24);
        AUTO(free) char *bytes = xcalloc(len + 1, 1);
        for (size_t k = 0; k < len; k++)
            bytes[k] = k < keep && k < 21 ? "GET /metrics HTTP/1.1"[k]
                                          : alphabet[rng_below(&rng, sizeof alphabet - 1)];
        AUTO(free) char *exact = memcpy(xrealloc(NULL, len ? len : 1, 1), bytes, len);
        int status = metrics_request_read(exact, len).status;
        CHECK(status == 0 || status == 200 || status == 400 || status == 404 || status == 405);
        bool ended = memmem(exact, len, "\n\n", 2) || memmem(exact, len, "\n\r\n", 3);
        CHECK(!ended || status != 0);
    }
}
