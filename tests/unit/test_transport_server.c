/* test_hub - both ends of the wire in one process: connections that break, and what is said then.
 */
#include "hpo/transport/transport_server.h"

#include "hpo/transport/peer_table.h"
#include "hpo/transport/transport_client.h"
#include "tests/unit/kit_zmq.h"
#include "tests/unit/test.h"

struct ends {
    uv_loop_t loop;
    char endpoint[80];
    struct transport_server *hub;
    struct transport_client *link;
    int hellos, opened, stops, acks, turns;
    int64_t reports; /* last seq */
    int64_t conn;    /* of the last message heard */
    bool acking;     /* every report is acknowledged; the last is said again on a connection */
    int64_t said;    /* last seq */
    int64_t acked;   /* likewise */
    int refused;     /* the code of the error; 0: it was not */
    struct curve_keys server, worker;
    uv_timer_t limit;
};

static void on_heard(void *arg, const char *worker, const struct wire_msg *m)
{
    struct ends *t = arg;
    CHECK_STR(worker, "w1");
    CHECK(m->conn >= t->conn);
    struct wire_msg ack = {.kind = WIRE_ACK, .lease = 1, .seq = m->seq};
    if (t->acking && m->kind == WIRE_REPORT)
        CHECK_INT(transport_server_send(t->hub, worker, &ack, &(struct err){0}), 0);
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

static void report(struct ends *t, int64_t seq)
{
    struct wire_msg m = {.kind = WIRE_REPORT, .lease = 1, .seq = seq};
    m.data = json_pack("{s:f}", "loss", 0.5);
    transport_client_send(t->link, &m);
    wire_msg_clear(&m);
}

static void on_opened(void *arg)
{
    struct ends *t = arg;
    struct wire_msg m = {.kind = WIRE_HELLO};
    m.data = json_pack("{s:s,s:i,s:[],s:i,s:i,s:i}", "node", "n", "slots", 1, "running", "cpus", 4,
                       "gpus", 2, "ping_ms", 5);
    t->opened++;
    transport_client_send(t->link, &m);
    wire_msg_clear(&m);
    if (t->said > t->acked)
        report(t, t->said);
}

static void on_link_heard(void *arg, const struct wire_msg *m)
{
    struct ends *t = arg;
    t->stops += m->kind == WIRE_STOP;
    t->acks += m->kind == WIRE_ACK;
    if (m->kind == WIRE_ACK)
        t->acked = m->seq;
    uv_stop(&t->loop);
}

static const struct transport_server_events hub_events = {on_heard, on_turn};
static void on_refused(void *arg, const struct err *e)
{
    struct ends *t = arg;
    t->refused = e->code;
    uv_stop(&t->loop);
}

static const struct transport_client_events link_events = {on_opened, on_link_heard, on_refused};

static void on_limit(uv_timer_t *t)
{
    FAIL("nothing was heard for 10 s");
}

static void listen_again(struct ends *t)
{
    struct err e = {0};
    if (transport_server_open(&t->hub, &t->loop, t->endpoint, &hub_events, t, &e) < 0)
        FAIL("%s", e.text);
}

static void hear_something(struct ends *t)
{
    uv_timer_start(&t->limit, on_limit, 10000, 0);
    uv_run(&t->loop, UV_RUN_DEFAULT);
}

static void start_renewing(struct ends *t, int renew_ms)
{
    struct err e = {0};
    *t = (struct ends){0};
    snprintf(t->endpoint, sizeof t->endpoint, "ipc:///tmp/test_hub.%d.sock", (int)getpid());
    CHECK_INT(uv_loop_init(&t->loop), 0);
    uv_timer_init(&t->loop, &t->limit);
    listen_again(t);
    const struct transport_client_opts to = {t->endpoint, "w1", NULL, 5000, renew_ms};
    if (transport_client_open(&t->link, &t->loop, &to, &link_events, t, &e) < 0)
        FAIL("%s", e.text);
    while (t->hellos == 0)
        hear_something(t);
}

static void start(struct ends *t)
{
    start_renewing(t, 3600000);
}

static void stop(struct ends *t)
{
    transport_client_close(t->link);
    transport_server_close(t->hub);
    uv_close((uv_handle_t *)&t->limit, NULL);
    uv_run(&t->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&t->loop), 0);
    CHECK(access(t->endpoint + 6, F_OK) < 0);
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
    CHECK_INT(
        transport_server_send(t.hub, "w1", &(struct wire_msg){.kind = WIRE_STOP, .lease = 1}, &e),
        0);
    while (t.stops == 0)
        hear_something(&t);
    CHECK(t.turns >= 2);
    CHECK_INT(t.hellos, 1);
    CHECK(!peer_table_find(transport_server_peers(t.hub), "w1")->renewed);
    stop(&t);
}

TEST(a_connection_that_is_used_is_renewed_and_nothing_is_lost)
{
    struct ends t;
    start_renewing(&t, 1);
    t.acking = true;
    while (t.said < 1000) {
        report(&t, ++t.said);
        while (t.acked < t.said)
            hear_something(&t);
    }
    CHECK(t.hellos > 10); /* 32 acknowledgements each: 31 at most */
    CHECK(t.hellos < 40);
    CHECK_INT(t.hellos, t.opened);
    CHECK_INT(t.conn, t.opened);
    CHECK(peer_table_find(transport_server_peers(t.hub), "w1")->renewed);
    stop(&t);
}

TEST(a_connection_that_is_to_be_kept_is_not_renewed)
{
    struct ends t;
    start_renewing(&t, 1);
    t.acking = true;
    transport_client_pin(t.link);
    while (t.said < 200) {
        report(&t, ++t.said);
        while (t.acked < t.said)
            hear_something(&t);
    }
    CHECK_INT(t.hellos, 1);
    stop(&t);
}

TEST(to_a_worker_that_is_not_there_nothing_is_said)
{
    struct ends t;
    start(&t);
    struct err e = {0};
    CHECK_INT(
        transport_server_send(t.hub, "w2", &(struct wire_msg){.kind = WIRE_STOP, .lease = 1}, &e),
        0);
    stop(&t);
}

TEST(after_the_coordinator_came_back_the_worker_opens_a_new_connection)
{
    struct ends t;
    start(&t);
    transport_server_close(t.hub);
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

/* The first that is silent. */
static const char *silent(const struct transport_server *h, int64_t ms)
{
    return transport_server_silent(h, ms, &(size_t){0});
}

TEST(a_worker_that_was_taken_for_lost_has_to_say_hello_first)
{
    struct ends t;
    start(&t);
    transport_server_mark_lost(t.hub, "w1");
    CHECK(silent(t.hub, 0) == NULL);
    struct err e = {0};
    CHECK_INT(
        transport_server_send(t.hub, "w1", &(struct wire_msg){.kind = WIRE_STOP, .lease = 1}, &e),
        0);
    report(&t, 1); /* answered by WIRE_RECONNECT */
    while (t.hellos < 2)
        hear_something(&t);
    CHECK_INT(t.reports, 0);
    CHECK_INT(t.conn, 2);
    CHECK_INT(t.stops, 0);
    CHECK(!peer_table_find(transport_server_peers(t.hub), "w1")->renewed);
    peer_table_at(transport_server_peers(t.hub), 0)->ping_ms = 0;
    CHECK_STR(silent(t.hub, 0), "w1");
    CHECK(silent(t.hub, 60000) == NULL);
    stop(&t);
}

TEST(a_worker_that_stops_reading_is_noticed_and_forgotten_when_it_says_hello)
{
    struct ends t;
    start(&t);
    struct err e = {0};
    for (int i = 0; i < 200000 && !silent(t.hub, 60000); i++)
        CHECK_INT(transport_server_send(t.hub, "w1",
                                        &(struct wire_msg){.kind = WIRE_STOP, .lease = 1}, &e),
                  0);
    CHECK_STR(silent(t.hub, 60000), "w1");
    transport_server_mark_lost(t.hub, "w1");
    report(&t, 1); /* answered by WIRE_RECONNECT, as soon as there is room for it */
    while (t.hellos < 2) {
        hear_something(&t);
        report(&t, 1);
    }
    CHECK(silent(t.hub, 60000) == NULL);
    stop(&t);
}

TEST(the_silence_of_a_worker_is_measured_by_its_pings_and_starts_anew_when_we_were_away)
{
    struct ends t;
    start(&t);
    struct peer *p = peer_table_at(transport_server_peers(t.hub), 0);
    CHECK_STR(p->node, "n");
    CHECK_INT(p->cpus, 4);
    CHECK_INT(p->gpus, 2);
    p->last_ms = uv_now(&t.loop) - 100;
    CHECK_STR(silent(t.hub, 50), "w1");
    CHECK(silent(t.hub, 5000) == NULL);
    p->ping_ms = 40;
    CHECK(silent(t.hub, 50) == NULL);
    p->ping_ms = 5;
    transport_server_reset_deadlines(t.hub);
    CHECK(silent(t.hub, 50) == NULL);
    stop(&t);
}

/* ---- over a network ------------------------------------------------------------------------- */

static char dir[64];

enum theirs { RIGHT_KEY, WRONG_SECRET, WRONG_SERVER, NO_KEY };

/* A hub with keys on a free port of loopback, and a worker that comes with these. */
static void start_with_keys(struct ends *t, enum theirs theirs)
{
    struct err e = {0};
    AUTO(free) char *bound = NULL;
    *t = (struct ends){0};
    strcpy(dir, "/tmp/test_hub.XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    CHECK_INT(curve_keys_of_sweep(&t->server, &t->worker, dir, &e), 0);
    snprintf(t->endpoint, sizeof t->endpoint, "ipc://%s/sock", dir);
    CHECK_INT(uv_loop_init(&t->loop), 0);
    uv_timer_init(&t->loop, &t->limit);
    listen_again(t);
    if (transport_server_listen(t->hub, "tcp://127.0.0.1:0", &t->server, &bound, &e) < 0)
        FAIL("%s", e.text);
    struct curve_keys keys = t->worker;
    if (theirs == WRONG_SECRET) { /* the coordinator's own pair: a good one, but not a worker's */
        memcpy(keys.secret, t->server.secret, CURVE_KEYS_BYTES);
        memcpy(keys.own, t->server.own, CURVE_KEYS_BYTES);
    }
    if (theirs == WRONG_SERVER)
        memcpy(keys.other, t->worker.own, CURVE_KEYS_BYTES);
    const struct transport_client_opts to = {bound, "w1", theirs == NO_KEY ? NULL : &keys, 5000,
                                             3600000};
    if (transport_client_open(&t->link, &t->loop, &to, &link_events, t, &e) < 0)
        FAIL("%s", e.text);
}

static void stop_with_keys(struct ends *t)
{
    stop(t);
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -r %s", dir);
    CHECK_INT(system(cmd), 0);
}

TEST(a_worker_with_the_key_of_the_sweep_is_heard_over_tcp)
{
    struct ends t;
    start_with_keys(&t, RIGHT_KEY);
    while (t.hellos == 0)
        hear_something(&t);
    report(&t, 1);
    while (t.reports == 0)
        hear_something(&t);
    CHECK_INT(t.refused, 0);
    stop_with_keys(&t);
}

TEST(a_worker_with_a_wrong_key_is_told_so_and_never_heard)
{
    struct ends t;
    start_with_keys(&t, WRONG_SECRET);
    while (!t.refused)
        hear_something(&t);
    CHECK_INT(t.refused, -EACCES);
    CHECK_INT(t.hellos, 0);
    stop_with_keys(&t);
}

static void on_shut_out(uv_timer_t *timer)
{
    struct ends *t = timer->data;
    if (transport_client_was_rejected(t->link))
        uv_stop(&t->loop);
}

TEST(who_has_no_key_or_another_coordinators_is_hung_up_on)
{
    for (int theirs = WRONG_SERVER; theirs <= NO_KEY; theirs++) {
        struct ends t;
        uv_timer_t look;
        start_with_keys(&t, (enum theirs)theirs);
        uv_timer_init(&t.loop, &look);
        look.data = &t;
        uv_timer_start(&look, on_shut_out, 5, 5);
        hear_something(&t);
        CHECK(transport_client_was_rejected(t.link));
        CHECK(!transport_client_was_ever_open(t.link));
        CHECK_INT(t.opened + t.hellos + t.refused, 0);
        uv_close((uv_handle_t *)&look, NULL);
        stop_with_keys(&t);
    }
}

TEST(what_a_stranger_may_be_called)
{
    CHECK(peer_table_id_ok("n1-17-00ff", 10));
    CHECK(!peer_table_id_ok("", 0));
    CHECK(!peer_table_id_ok("a b", 3));
    CHECK(!peer_table_id_ok("\0abc", 4)); /* what ZeroMQ makes up */
    char longest[WIRE_WORKER_MAX + 1];
    memset(longest, 'a', sizeof longest);
    CHECK(peer_table_id_ok(longest, WIRE_WORKER_MAX));
    CHECK(!peer_table_id_ok(longest, WIRE_WORKER_MAX + 1));
}

TEST(ten_thousand_workers_are_told_apart)
{
    AUTO(peer_table) struct peer_table *p = peer_table_new();
    char id[32];
    for (int i = 0; i < 10000; i++) {
        snprintf(id, sizeof id, "w%d", i);
        peer_table_add(p, id)->conn = i;
    }
    CHECK_INT(peer_table_count(p), 10000);
    CHECK_INT(peer_table_find(p, "w9999")->conn, 9999);
    CHECK_INT(peer_table_add(p, "w17")->conn, 17);
    CHECK(peer_table_find(p, "w10000") == NULL);
}
