/* test_hub - both ends of the wire in one process: connections that break, and what is said then.
 */
#include "hpo/sweep/hub.h"

#include "hpo/sweep/link.h"
#include "hpo/sweep/peers.h"
#include "tests/unit/kit_zmq.h"
#include "tests/unit/test.h"

struct ends {
    uv_loop_t loop;
    char endpoint[80];
    struct hub *hub;
    struct link *link;
    int hellos, opened, stops, acks, turns;
    int64_t reports; /* last seq */
    int64_t conn;    /* of the last message heard */
    uv_timer_t limit;
};

static void on_heard(void *arg, const char *worker, const struct wire_msg *m)
{
    struct ends *t = arg;
    CHECK_STR(worker, "w1");
    t->conn = m->conn;
    t->hellos += m->kind == WIRE_HELLO;
    if (m->kind == WIRE_REPORT)
        t->reports = m->seq;
    uv_stop(&t->loop);
}

static void on_turn(void *arg)
{
    struct ends *t = arg;
    t->turns++;
}

static void on_opened(void *arg)
{
    struct ends *t = arg;
    struct wire_msg m = {.kind = WIRE_HELLO};
    m.data = json_pack("{s:s,s:i,s:[]}", "node", "n", "places", 1, "running");
    t->opened++;
    link_say(t->link, &m);
    wire_msg_clear(&m);
}

static void on_link_heard(void *arg, const struct wire_msg *m)
{
    struct ends *t = arg;
    t->stops += m->kind == WIRE_STOP;
    t->acks += m->kind == WIRE_ACK;
    uv_stop(&t->loop);
}

static const struct hub_events hub_events = {on_heard, on_turn};
static const struct link_events link_events = {on_opened, on_link_heard};

static void on_limit(uv_timer_t *t)
{
    FAIL("nothing was heard for 10 s");
}

static void listen_again(struct ends *t)
{
    struct err e = {0};
    if (hub_open(&t->hub, &t->loop, t->endpoint, &hub_events, t, &e) < 0)
        FAIL("%s", e.text);
}

static void hear_something(struct ends *t)
{
    uv_timer_start(&t->limit, on_limit, 10000, 0);
    uv_run(&t->loop, UV_RUN_DEFAULT);
}

static void start(struct ends *t)
{
    struct err e = {0};
    *t = (struct ends){0};
    snprintf(t->endpoint, sizeof t->endpoint, "ipc:///tmp/test_hub.%d.sock", (int)getpid());
    CHECK_INT(uv_loop_init(&t->loop), 0);
    uv_timer_init(&t->loop, &t->limit);
    listen_again(t);
    if (link_open(&t->link, &t->loop, t->endpoint, "w1", &link_events, t, &e) < 0)
        FAIL("%s", e.text);
    while (t->hellos == 0)
        hear_something(t);
}

static void stop(struct ends *t)
{
    link_close(t->link);
    hub_close(t->hub);
    uv_close((uv_handle_t *)&t->limit, NULL);
    uv_run(&t->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&t->loop), 0);
    CHECK(access(t->endpoint + 6, F_OK) < 0);
}

static void report(struct ends *t, int64_t seq)
{
    struct wire_msg m = {.kind = WIRE_REPORT, .lease = 1, .seq = seq};
    m.data = json_pack("{s:f}", "loss", 0.5);
    link_say(t->link, &m);
    wire_msg_clear(&m);
}

TEST(a_worker_says_hello_and_is_heard_and_told)
{
    struct ends t;
    start(&t);
    CHECK_INT(t.conn, 1);
    report(&t, 1);
    while (t.reports == 0)
        hear_something(&t);
    struct err e = {0};
    CHECK_INT(hub_say(t.hub, "w1", &(struct wire_msg){.kind = WIRE_STOP, .lease = 1}, &e), 0);
    while (t.stops == 0)
        hear_something(&t);
    CHECK(t.turns >= 2);
    CHECK_INT(t.hellos, 1);
    stop(&t);
}

TEST(to_a_worker_that_is_not_there_nothing_is_said)
{
    struct ends t;
    start(&t);
    struct err e = {0};
    CHECK_INT(hub_say(t.hub, "w2", &(struct wire_msg){.kind = WIRE_STOP, .lease = 1}, &e), 0);
    stop(&t);
}

TEST(after_the_coordinator_came_back_the_worker_opens_a_new_connection)
{
    struct ends t;
    start(&t);
    hub_close(t.hub);
    listen_again(&t);
    while (t.hellos < 2)
        hear_something(&t);
    CHECK_INT(t.conn, 2);
    report(&t, 1);
    while (t.reports == 0)
        hear_something(&t);
    CHECK_INT(t.conn, 2);
    stop(&t);
}

TEST(a_worker_that_was_taken_for_lost_has_to_say_hello_first)
{
    struct ends t;
    start(&t);
    hub_lose(t.hub, "w1");
    CHECK(hub_silent(t.hub, 0) == NULL);
    struct err e = {0};
    CHECK_INT(hub_say(t.hub, "w1", &(struct wire_msg){.kind = WIRE_STOP, .lease = 1}, &e), 0);
    report(&t, 1); /* answered by WIRE_WHO */
    while (t.hellos < 2)
        hear_something(&t);
    CHECK_INT(t.reports, 0);
    CHECK_INT(t.conn, 2);
    CHECK_INT(t.stops, 0);
    CHECK_STR(hub_silent(t.hub, 0), "w1");
    CHECK(hub_silent(t.hub, 60000) == NULL);
    stop(&t);
}

TEST(what_a_stranger_may_be_called)
{
    CHECK(peers_id_ok("n1-17-00ff", 10));
    CHECK(!peers_id_ok("", 0));
    CHECK(!peers_id_ok("a b", 3));
    CHECK(!peers_id_ok("\0abc", 4)); /* what ZeroMQ makes up */
    char longest[WIRE_WORKER_MAX + 1];
    memset(longest, 'a', sizeof longest);
    CHECK(peers_id_ok(longest, WIRE_WORKER_MAX));
    CHECK(!peers_id_ok(longest, WIRE_WORKER_MAX + 1));
}

TEST(ten_thousand_workers_are_told_apart)
{
    AUTO(peers) struct peers *p = peers_new();
    char id[32];
    for (int i = 0; i < 10000; i++) {
        snprintf(id, sizeof id, "w%d", i);
        peers_add(p, id)->conn = i;
    }
    CHECK_INT(peers_count(p), 10000);
    CHECK_INT(peers_find(p, "w9999")->conn, 9999);
    CHECK_INT(peers_add(p, "w17")->conn, 17);
    CHECK(peers_find(p, "w10000") == NULL);
}
