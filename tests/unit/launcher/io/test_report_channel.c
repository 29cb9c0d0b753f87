/* report_channel: whole packets, limits, and packets that are not objects. */
#include "launcher/io/report_channel.h"

#include <sys/socket.h>

#include "common/strbuf.h"
#include "tests/unit/test.h"

struct fixture {
    uv_loop_t loop;
    struct report_channel *c;
    int child;
    struct strbuf seen;
    int count;
};

static void on_packet(void *arg, int rank, const char *json, size_t len)
{
    struct fixture *f = arg;
    CHECK_INT(rank, 3);
    f->count++;
    if (len < 100) {
        strbuf_add(&f->seen, json, len);
        strbuf_putc(&f->seen, '|');
    }
}

static void start(struct fixture *f)
{
    *f = (struct fixture){.child = -1};
    uv_loop_init(&f->loop);
    struct report_channel_events reader = {3, on_packet, f};
    CHECK_INT(report_channel_open(&f->c, &f->child, &f->loop, &reader, NULL), 0);
}

static void turn(struct fixture *f)
{
    for (int i = 0; i < 3; i++)
        uv_run(&f->loop, UV_RUN_NOWAIT);
}

static void stop(struct fixture *f)
{
    report_channel_close(f->c);
    uv_run(&f->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&f->loop), 0);
    strbuf_free(&f->seen);
    auto_fd(&f->child);
}

static void put(struct fixture *f, const char *text, size_t len)
{
    CHECK_INT(send(f->child, text, len, 0), len);
}

TEST(packets_come_whole_and_in_order)
{
    struct fixture f;
    start(&f);
    CHECK(!report_channel_used(f.c));
    put(&f, "{\"a\":1}", 7);
    put(&f, " {} \n", 5);
    turn(&f);
    CHECK_STR(strbuf_str(&f.seen), "{\"a\":1}| {} \n|");
    CHECK(report_channel_used(f.c));
    stop(&f);
}

TEST(what_is_no_object_or_too_long_is_dropped_and_the_rest_comes)
{
    struct fixture f;
    start(&f);
    static char big[REPORT_CHANNEL_PACKET_MAX + 1];
    memset(big, ' ', sizeof big);
    big[0] = '{';
    big[sizeof big - 1] = '}';
    put(&f, big, sizeof big);
    put(&f, "", 0);
    put(&f, "[1]", 3);
    put(&f, "{", 1);
    put(&f, "   ", 3);
    turn(&f);
    CHECK_INT(f.count, 0);
    CHECK(!report_channel_used(f.c));
    big[sizeof big - 2] = '}';
    put(&f, big, sizeof big - 1);
    put(&f, "{}", 2);
    turn(&f);
    CHECK_INT(f.count, 2);
    stop(&f);
}

TEST(what_was_sent_before_the_end_is_drained)
{
    struct fixture f;
    start(&f);
    for (int i = 0; i < 100; i++)
        put(&f, "{}", 2);
    close(fd_take(&f.child));
    report_channel_drain(f.c);
    CHECK_INT(f.count, 100);
    turn(&f);
    stop(&f);
}

TEST(the_rank_is_told_to_stop)
{
    struct fixture f;
    start(&f);
    report_channel_send_stop(f.c);
    char got[64] = "";
    CHECK(recv(f.child, got, sizeof got - 1, 0) > 0);
    CHECK_STR(got, "{\"stop\":true}");
    stop(&f);
}

TEST(telling_a_rank_that_is_gone_is_no_error)
{
    struct fixture f;
    start(&f);
    close(fd_take(&f.child));
    report_channel_send_stop(f.c);
    turn(&f);
    stop(&f);
}
