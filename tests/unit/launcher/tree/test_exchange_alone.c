/* exchange_alone: a job with one node. */
#include "launcher/tree/exchange_alone.h"

#include <errno.h>

#include "tests/unit/test.h"

static struct strbuf got; /* as text */

static void on_deliver(void *arg, const struct exchange_message *m)
{
    CHECK(arg == &got);
    strbuf_printf(&got, "%d %d #%d %d %.*s; ", (int)m->type, (int)m->kind, (int)m->id, m->status,
                  (int)m->len, m->len ? m->data : "");
}

#define SUBMIT(x, now_ms, ...) \
    exchange_alone_submit(x, &(struct exchange_message){__VA_ARGS__}, now_ms, &(struct err){0})

static void check_got(const char *want)
{
    CHECK_STR(strbuf_str(&got), want);
    strbuf_reset(&got);
}

TEST(fences_and_names_are_answered_at_once_and_lookups_in_time)
{
    static const int nodes[2] = {0};
    static const char *const keys[] = {"sea"};
    struct exchange_alone *x = exchange_alone_new(nodes, 2, on_deliver, &got);
    CHECK_INT(SUBMIT(x, 0, .type = EXCHANGE_FENCE, .data = "data", .len = 4), 0);
    CHECK(strstr(strbuf_str(&got), " 0 data; "));
    strbuf_reset(&got);
    CHECK_INT(SUBMIT(x, 5, .type = EXCHANGE_LOOKUP, .kind = EXCHANGE_PMI1, .id = 3, .keys = keys,
                     .key_count = 1, .wait_ms = 10),
              0);
    check_got("");
    CHECK_INT(exchange_alone_expire(x, 5), 15);
    CHECK_INT(SUBMIT(x, 6, .type = EXCHANGE_PUBLISH, .kind = EXCHANGE_PMI1, .id = 4, .keys = keys,
                     .key_count = 1, .data = "port", .len = 4),
              0);
    check_got("7 5 #4 0 ; 7 5 #3 0 port; ");
    CHECK(exchange_alone_expire(x, 6) == INT64_MAX);
    CHECK_INT(SUBMIT(x, 7, .type = EXCHANGE_PUBLISH, .rank = 2, .keys = keys, .key_count = 1),
              -EBADMSG);
    check_got("");
    exchange_alone_free(x);
    exchange_alone_free(NULL);
    strbuf_free(&got);
}
