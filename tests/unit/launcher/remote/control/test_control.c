/* control: two ends on the loopback device; silence, disconnects, unauthenticated peers, several
 * addresses. */
#include "launcher/remote/control/control.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>

#include "tests/unit/test.h"

struct end {
    struct control *c;
    uv_loop_t *loop;
    struct strbuf received; /* "type:payload|" of each frame */
    size_t bytes;
    char why[128];
    bool ended, close_at_once;
};

static void on_frame(void *arg, const struct control_frame *f)
{
    struct end *d = arg;
    d->bytes += f->len;
    if (f->len < 100)
        strbuf_printf(&d->received, "%s:%.*s|", f->type, (int)f->len, f->payload);
    if (d->close_at_once)
        control_close(TAKE(d->c));
    uv_stop(d->loop);
}

static void on_ended(void *arg, const char *why)
{
    struct end *d = arg;
    snprintf(d->why, sizeof d->why, "%s", why);
    d->ended = true;
    uv_stop(d->loop);
}

static const struct control_events events = {on_frame, on_ended};

struct pair {
    uv_loop_t loop;
    struct end a, b;
    int raw; /* b's socket without a control connection; -1 */
};

static void pair_open_with(struct pair *p, bool raw, const char *token, const char *other)
{
    int fds[2];
    memset(p, 0, sizeof *p);
    CHECK_INT(uv_loop_init(&p->loop), 0);
    p->a.loop = p->b.loop = &p->loop;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    CHECK(bind(listener, (struct sockaddr *)&in, len) == 0 && listen(listener, 1) == 0);
    getsockname(listener, (struct sockaddr *)&in, &len);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(connect(fds[0], (struct sockaddr *)&in, len) == 0);
    fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    close(listener);
    CHECK_INT(control_open(&p->a.c, &p->loop, fds[0], token, &events, &p->a, NULL), 0);
    p->raw = raw ? fds[1] : -1;
    if (!raw)
        CHECK_INT(control_open(&p->b.c, &p->loop, fds[1], other, &events, &p->b, NULL), 0);
}

static void pair_open(struct pair *p, bool raw)
{
    pair_open_with(p, raw, NULL, NULL);
}

static void pair_close(struct pair *p)
{
    control_close(p->a.c);
    control_close(p->b.c);
    auto_fd(&p->raw);
    uv_run(&p->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&p->loop), 0);
    strbuf_free(&p->a.received);
    strbuf_free(&p->b.received);
}

static void until_received(struct end *d, const char *text)
{
    while (!strstr(strbuf_str(&d->received), text)) {
        if (d->ended)
            FAIL("%s", d->why);
        uv_run(d->loop, UV_RUN_DEFAULT);
    }
}

static void until_ended(struct end *d)
{
    while (!d->ended)
        uv_run(d->loop, UV_RUN_DEFAULT);
}

TEST(frames_of_any_size_arrive_whole_and_in_order)
{
    struct pair p;
    pair_open(&p, false);
    control_authenticate(p.a.c, 15000);
    control_authenticate(p.b.c, 15000);
    AUTO(free) char *big = xcalloc(5 << 20, 1);
    control_send(p.a.c, json_pack("{s:s}", "t", "one"), "1", 1);
    control_send(p.a.c, json_pack("{s:s}", "t", "big"), big, 5 << 20);
    control_send(p.a.c, json_pack("{s:s}", "t", "last"), "x", 1);
    until_received(&p.b, "last:x|");
    CHECK_STR(strbuf_str(&p.b.received), "one:1|last:x|");
    CHECK_INT(p.b.bytes, (5 << 20) + 2);
    pair_close(&p);
}

/* The peer reads nothing at first: bulk frames pile up, and what is sent last arrives before
 * them. */
static void check_overtaking(const char *token)
{
    struct pair p;
    pair_open_with(&p, false, token, token);
    control_authenticate(p.a.c, 15000);
    control_authenticate(p.b.c, 15000);
    control_send(p.a.c, json_pack("{s:s}", "t", "first"), NULL, 0);
    until_received(&p.b, "first:|");
    AUTO(free) char *big = xcalloc(1 << 20, 1);
    for (int i = 0; i < 20; i++)
        control_send_bulk(p.a.c, json_pack("{s:s}", "t", "big"), big, 1 << 20);
    control_send_bulk(p.a.c, json_pack("{s:s}", "t", "bulk"), "1", 1);
    control_send_bulk(p.a.c, json_pack("{s:s}", "t", "bulk"), "2", 1);
    control_send(p.a.c, json_pack("{s:s}", "t", "signal"), NULL, 0);
    until_received(&p.b, "signal:|");
    CHECK(p.b.bytes < 10 << 20);
    until_received(&p.b, "bulk:2|");
    CHECK_STR(strbuf_str(&p.b.received), "first:|signal:|bulk:1|bulk:2|");
    CHECK_INT(p.b.bytes, (20 << 20) + 2);
    pair_close(&p);
}

TEST(other_frames_overtake_bulk_frames)
{
    check_overtaking(NULL);
    check_overtaking("0123456789abcdef");
}

TEST(a_connection_closes_with_bulk_frames_unsent)
{
    struct pair p;
    pair_open(&p, true);
    AUTO(free) char *big = xcalloc(1 << 20, 1);
    for (int i = 0; i < 20; i++)
        control_send_bulk(p.a.c, json_pack("{s:s}", "t", "big"), big, 1 << 20);
    pair_close(&p);
}

TEST(a_silent_peer_is_lost_and_pings_keep_alive)
{
    struct pair p;
    pair_open(&p, true); /* the raw side reads and sends nothing */
    control_authenticate(p.a.c, 150);
    uint64_t before = uv_now(&p.loop);
    until_ended(&p.a);
    CHECK_STR(p.a.why, "silent for 0.15 s");
    CHECK(uv_now(&p.loop) - before >= 140);
    pair_close(&p);
    pair_open(&p, false);
    control_authenticate(p.a.c, 150);
    control_authenticate(p.b.c, 150);
    for (before = uv_now(&p.loop); uv_now(&p.loop) - before < 600;)
        uv_run(&p.loop, UV_RUN_ONCE);
    CHECK(!p.a.ended && !p.b.ended && p.a.received.len == 0);
    pair_close(&p);
}

TEST(a_frozen_peer_is_tolerated_also_with_a_full_buffer)
{
    AUTO(free) char *big = xcalloc(16 << 20, 1);
    signal(SIGPIPE, SIG_IGN); /* as in drover */
    for (size_t bytes = 0; bytes <= 16 << 20; bytes += 16 << 20) {
        struct pair p;
        pair_open(&p, true); /* the raw side reads and sends nothing; its kernel answers */
        control_authenticate(p.a.c, 150);
        control_tolerate_frozen(p.a.c);
        control_send(p.a.c, json_pack("{s:s}", "t", "big"), big, bytes);
        for (uint64_t before = uv_now(&p.loop); uv_now(&p.loop) - before < 1500;)
            uv_run(&p.loop, UV_RUN_ONCE);
        CHECK(!p.a.ended);
        close(fd_take(&p.raw));
        until_ended(&p.a);
        CHECK_HAS(p.a.why, "the connection was");
        pair_close(&p);
    }
}

TEST(a_suspended_timeout_lasts_until_the_next_frame)
{
    struct pair p;
    pair_open(&p, true);
    control_authenticate(p.a.c, 100);
    control_suspend_timeout(p.a.c);
    for (uint64_t before = uv_now(&p.loop); uv_now(&p.loop) - before < 400;)
        uv_run(&p.loop, UV_RUN_ONCE);
    CHECK(!p.a.ended);
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(json) json_t *ping = json_pack("{s:s}", "t", "ping");
    control_frame_encode(&b, ping, NULL, 0);
    CHECK_INT(write(p.raw, b.data, b.len), b.len);
    until_ended(&p.a);
    CHECK_HAS(p.a.why, "silent");
    pair_close(&p);
}

TEST(a_closed_connection_is_reported_and_so_is_an_invalid_frame)
{
    struct pair p;
    pair_open(&p, true);
    close(fd_take(&p.raw));
    until_ended(&p.a);
    CHECK_STR(p.a.why, "the connection was closed");
    pair_close(&p);
    pair_open(&p, true);
    CHECK_INT(write(p.raw, "GET / HTTP/1.1\r\n", 16), 16);
    until_ended(&p.a);
    CHECK_HAS(p.a.why, "limit");
    pair_close(&p);
}

TEST(an_unauthenticated_peer_may_send_short_frames_only)
{
    struct pair p;
    pair_open(&p, true);
    char head[8] = {0, 0x11}; /* 4,352 bytes: allowed for an authenticated peer */
    CHECK_INT(write(p.raw, head, 8), 8);
    until_ended(&p.a);
    CHECK_HAS(p.a.why, "exceeds the limit of 4096");
    pair_close(&p);
}

TEST(a_connection_may_be_closed_by_the_frame_that_it_delivers)
{
    struct pair p;
    pair_open(&p, false);
    p.b.close_at_once = true;
    control_send(p.a.c, json_pack("{s:s}", "t", "one"), NULL, 0);
    control_send(p.a.c, json_pack("{s:s}", "t", "two"), NULL, 0);
    until_received(&p.b, "one:|");
    until_ended(&p.a);
    CHECK_STR(strbuf_str(&p.b.received), "one:|");
    pair_close(&p);
}

TEST(with_a_token_all_frames_are_encrypted_and_arrive)
{
    struct pair p;
    pair_open_with(&p, false, "secret", "secret");
    control_authenticate(p.a.c, 15000);
    control_authenticate(p.b.c, 15000);
    AUTO(free) char *big = xcalloc(5 << 20, 1);
    control_send(p.a.c, json_pack("{s:s}", "t", "hello"), "1", 1); /* before the peer's greeting */
    control_send(p.a.c, json_pack("{s:s}", "t", "early"), "2", 1);
    until_received(&p.b, "early:2|");
    control_send(p.a.c, json_pack("{s:s}", "t", "big"), big, 5 << 20);
    control_send(p.b.c, json_pack("{s:s}", "t", "back"), "3", 1);
    control_send(p.a.c, json_pack("{s:s}", "t", "last"), "x", 1);
    until_received(&p.b, "last:x|");
    until_received(&p.a, "back:3|");
    CHECK_STR(strbuf_str(&p.b.received), "hello:1|early:2|last:x|");
    CHECK_INT(p.b.bytes, (5 << 20) + 3);
    pair_close(&p);
}

TEST(a_peer_with_another_token_or_none_is_dropped)
{
    struct pair p;
    pair_open_with(&p, false, "secret", "secreT");
    control_send(p.b.c, json_pack("{s:s}", "t", "hello"), NULL, 0);
    until_ended(&p.a);
    CHECK_STR(p.a.why, "the peer does not have the token of this job");
    CHECK_INT(p.a.received.len, 0);
    pair_close(&p);
    pair_open_with(&p, true, "secret", NULL);
    CHECK_INT(write(p.raw, "GET / HTTP/1.1\r\nHost: somewhere.else\r\n\r\n", 41), 41);
    until_ended(&p.a);
    CHECK_HAS(p.a.why, "not the greeting of this version of drover");
    pair_close(&p);
}

TEST(only_equal_tokens_are_equal)
{
    CHECK(control_same_token("0123", "0123"));
    CHECK(!control_same_token("0123", "0124"));
    CHECK(!control_same_token("0123", "012"));
    CHECK(!control_same_token("", "0"));
}

static int listen_at(char *address, size_t size)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    CHECK(bind(fd, (struct sockaddr *)&in, len) == 0);
    getsockname(fd, (struct sockaddr *)&in, &len);
    snprintf(address, size, "127.0.0.1:%d", ntohs(in.sin_port));
    return fd;
}

TEST(the_first_address_that_answers_is_used_and_each_failure_is_named)
{
    char dead[64], live[64], list[300];
    int nobody = listen_at(dead, sizeof dead); /* bound, does not listen: refused */
    int somebody = listen_at(live, sizeof live);
    CHECK_INT(listen(somebody, 4), 0);
    snprintf(list, sizeof list, "%s,nonsense,[::zz]:3,%s", dead, live);
    int fd = -1;
    struct err e = {0};
    CHECK_INT(control_connect(&fd, list, 5000, &e), 0);
    CHECK(fd >= 0);
    close(fd);
    fd = -1;
    snprintf(list, sizeof list, "%s,nonsense", dead);
    CHECK(control_connect(&fd, list, 5000, &e) < 0);
    CHECK_HAS(e.text, dead);
    CHECK_HAS(e.text, "refused");
    CHECK_HAS(e.text, "nonsense: Invalid argument");
    CHECK_INT(fd, -1);
    close(nobody);
    close(somebody);
}

TEST(an_address_that_does_not_answer_costs_a_head_start_and_the_limit_holds)
{
    char live[64], list[300];
    int somebody = listen_at(live, sizeof live);
    CHECK_INT(listen(somebody, 4), 0);
    /* The queue is full: further connections get no answer. */
    char full[64];
    int deaf = listen_at(full, sizeof full);
    CHECK_INT(listen(deaf, 0), 0);
    int fill[8];
    for (size_t i = 0; i < COUNT_OF(fill); i++) {
        struct sockaddr_in in;
        socklen_t len = sizeof in;
        getsockname(deaf, (struct sockaddr *)&in, &len);
        fill[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        (void)!connect(fill[i], (struct sockaddr *)&in, len);
    }
    uint64_t before = uv_hrtime();
    int fd = -1;
    struct err e = {0};
    CHECK(control_connect(&fd, full, 200, &e) < 0);
    CHECK_HAS(e.text, "timed out");
    snprintf(list, sizeof list, "%s,%s", full, live);
    CHECK_INT(control_connect(&fd, list, 5000, &e), 0);
    CHECK((uv_hrtime() - before) / 1000000 < 2000);
    close(fd);
    close(somebody);
    close(deaf);
    for (size_t i = 0; i < COUNT_OF(fill); i++)
        close(fill[i]);
}
