/* test_transport_server - both ends of the wire in one process: connections that break, and what is
 * sent then. */
#include "hpo/transport/transport_server.h"

#include "hpo/transport/peer_table.h"
#include "hpo/transport/transport_client.h"
#include "tests/unit/test.h"

struct ends {
    uv_loop_t loop;
    char endpoint[80];
    struct transport_server *server;
    struct transport_client *client;
    int hellos, opened, stops, acks, turns;
    int64_t reports; /* last seq at the server */
    int64_t conn;    /* of the last message at the server */
    bool acking;  /* every report is acknowledged; the last one is sent again on a new connection */
    int64_t sent; /* last seq of the client */
    int64_t acked; /* last seq that was acknowledged */
    int rejected;  /* the code of the error; 0: the client was not rejected */
    struct curve_keys server_keys, worker_keys;
    uv_timer_t limit;
};

static void on_message(void *arg, const char *worker, const struct wire_msg *m)
{
    struct ends *t = arg;
    CHECK_STR(worker, "w1");
    CHECK(m->conn >= t->conn);
    struct wire_msg ack = {.kind = WIRE_ACK, .lease = 1, .seq = m->seq};
    if (t->acking && m->kind == WIRE_REPORT)
        CHECK_INT(transport_server_send(t->server, worker, &ack, &(struct err){0}), 0);
    t->conn = m->conn;
    t->hellos += m->kind == WIRE_HELLO;
    if (m->kind == WIRE_REPORT)
        t->reports = m->seq;
    uv_stop(&t->loop);
}

static void on_batch_end(void *arg)
{
    struct ends *t = arg;
    t->turns++;
}

static void report(struct ends *t, int64_t seq)
{
    struct wire_msg m = {.kind = WIRE_REPORT, .instance = 1, .lease = 1, .seq = seq};
    m.data = json_pack("{s:f}", "loss", 0.5);
    transport_client_send(t->client, &m);
    wire_msg_clear(&m);
}

static void on_opened(void *arg)
{
    struct ends *t = arg;
    struct wire_msg m = {.kind = WIRE_HELLO};
    m.data = json_pack("{s:s,s:i,s:[],s:i,s:i,s:i}", "node", "n", "slots", 1, "running", "cpus", 4,
                       "gpus", 2, "ping_ms", 5);
    t->opened++;
    transport_client_send(t->client, &m);
    wire_msg_clear(&m);
    if (t->sent > t->acked)
        report(t, t->sent);
}

static void on_client_message(void *arg, const struct wire_msg *m)
{
    struct ends *t = arg;
    t->stops += m->kind == WIRE_STOP;
    t->acks += m->kind == WIRE_ACK;
    if (m->kind == WIRE_ACK)
        t->acked = m->seq;
    uv_stop(&t->loop);
}

static const struct transport_server_events server_events = {on_message, on_batch_end};
static void on_rejected(void *arg, const struct err *e)
{
    struct ends *t = arg;
    t->rejected = e->code;
    uv_stop(&t->loop);
}

static const struct transport_client_events client_events = {on_opened, on_client_message,
                                                             on_rejected};

static void on_limit(uv_timer_t *t)
{
    FAIL("nothing was received for 10 s");
}

static void listen_again(struct ends *t)
{
    struct err e = {0};
    if (transport_server_open(&t->server, &t->loop, t->endpoint, &server_events, t, &e) < 0)
        FAIL("%s", e.text);
}

static void receive_something(struct ends *t)
{
    uv_timer_start(&t->limit, on_limit, 10000, 0);
    uv_run(&t->loop, UV_RUN_DEFAULT);
}

static void start_renewing(struct ends *t, int renew_ms)
{
    struct err e = {0};
    *t = (struct ends){0};
    snprintf(t->endpoint, sizeof t->endpoint, "ipc:///tmp/test_server.%d.sock", (int)getpid());
    CHECK_INT(uv_loop_init(&t->loop), 0);
    uv_timer_init(&t->loop, &t->limit);
    listen_again(t);
    const struct transport_client_opts to = {t->endpoint, "w1", NULL, 5000, renew_ms};
    if (transport_client_open(&t->client, &t->loop, &to, &client_events, t, &e) < 0)
        FAIL("%s", e.text);
    while (t->hellos == 0)
        receive_something(t);
}

static void start(struct ends *t)
{
    start_renewing(t, 3600000);
}

static void stop(struct ends *t)
{
    transport_client_close(t->client);
    transport_server_close(t->server);
    uv_close((uv_handle_t *)&t->limit, NULL);
    uv_run(&t->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&t->loop), 0);
    CHECK(access(t->endpoint + 6, F_OK) < 0);
}

TEST(a_worker_sends_hello_and_both_ends_receive_messages)
{
    struct ends t;
    start(&t);
    CHECK_INT(t.conn, 1);
    report(&t, 1);
    while (t.reports == 0)
        receive_something(&t);
    struct err e = {0};
    CHECK_INT(transport_server_send(t.server, "w1",
                                    &(struct wire_msg){.kind = WIRE_STOP, .lease = 1}, &e),
              0);
    while (t.stops == 0)
        receive_something(&t);
    CHECK(t.turns >= 2);
    CHECK_INT(t.hellos, 1);
    CHECK(!peer_table_find(transport_server_peers(t.server), "w1")->renewed);
    stop(&t);
}

TEST(a_used_connection_is_renewed_and_nothing_is_lost)
{
    struct ends t;
    start_renewing(&t, 1);
    t.acking = true;
    while (t.sent < 1000) {
        report(&t, ++t.sent);
        while (t.acked < t.sent)
            receive_something(&t);
    }
    CHECK(t.hellos > 10); /* renewed after 32 acknowledgements: at most 31 times */
    CHECK(t.hellos < 40);
    CHECK_INT(t.hellos, t.opened);
    CHECK_INT(t.conn, t.opened);
    CHECK(peer_table_find(transport_server_peers(t.server), "w1")->renewed);
    stop(&t);
}

TEST(a_pinned_connection_is_not_renewed)
{
    struct ends t;
    start_renewing(&t, 1);
    t.acking = true;
    transport_client_pin(t.client);
    while (t.sent < 200) {
        report(&t, ++t.sent);
        while (t.acked < t.sent)
            receive_something(&t);
    }
    CHECK_INT(t.hellos, 1);
    stop(&t);
}

TEST(a_message_to_an_unknown_worker_is_dropped)
{
    struct ends t;
    start(&t);
    struct err e = {0};
    CHECK_INT(transport_server_send(t.server, "w2",
                                    &(struct wire_msg){.kind = WIRE_STOP, .lease = 1}, &e),
              0);
    stop(&t);
}

TEST(the_worker_connects_again_after_a_restart_of_the_coordinator)
{
    struct ends t;
    start(&t);
    transport_server_close(t.server);
    listen_again(&t);
    while (t.hellos < 2)
        receive_something(&t);
    CHECK_INT(t.conn, 2);
    report(&t, 1);
    while (t.reports == 0)
        receive_something(&t);
    CHECK_INT(t.conn, 2);
    stop(&t);
}

/* The first silent worker. */
static const char *silent(const struct transport_server *h, int64_t ms)
{
    return transport_server_silent(h, ms, &(size_t){0});
}

TEST(a_worker_that_counts_as_lost_must_send_hello_first)
{
    struct ends t;
    start(&t);
    transport_server_mark_lost(t.server, "w1");
    CHECK(silent(t.server, 0) == NULL);
    struct err e = {0};
    CHECK_INT(transport_server_send(t.server, "w1",
                                    &(struct wire_msg){.kind = WIRE_STOP, .lease = 1}, &e),
              0);
    report(&t, 1); /* answered by WIRE_RECONNECT */
    while (t.hellos < 2)
        receive_something(&t);
    CHECK_INT(t.reports, 0);
    CHECK_INT(t.conn, 2);
    CHECK_INT(t.stops, 0);
    CHECK(!peer_table_find(transport_server_peers(t.server), "w1")->renewed);
    transport_server_peers(t.server)->list[0].ping_ms = 0;
    CHECK_STR(silent(t.server, 0), "w1");
    CHECK(silent(t.server, 60000) == NULL);
    stop(&t);
}

TEST(a_worker_whose_hello_was_not_sent_must_send_one)
{
    struct ends t;
    start(&t);
    transport_server_peers(t.server)->list[0].conn = 0;
    report(&t, 1); /* answered by WIRE_RECONNECT */
    while (t.hellos < 2)
        receive_something(&t);
    CHECK_INT(t.reports, 0);
    CHECK_INT(t.conn, 2);
    stop(&t);
}

TEST(a_worker_that_stops_reading_is_silent_until_its_next_hello)
{
    struct ends t;
    start(&t);
    struct err e = {0};
    for (int i = 0; i < 200000 && !silent(t.server, 60000); i++)
        CHECK_INT(transport_server_send(t.server, "w1",
                                        &(struct wire_msg){.kind = WIRE_STOP, .lease = 1}, &e),
                  0);
    CHECK_STR(silent(t.server, 60000), "w1");
    transport_server_mark_lost(t.server, "w1");
    report(&t, 1); /* answered by WIRE_RECONNECT, as soon as there is room for it */
    while (t.hellos < 2) {
        receive_something(&t);
        report(&t, 1);
    }
    CHECK(silent(t.server, 60000) == NULL);
    stop(&t);
}

TEST(the_silence_of_a_worker_is_measured_by_its_pings_and_can_be_reset)
{
    struct ends t;
    start(&t);
    struct peer *p = &transport_server_peers(t.server)->list[0];
    CHECK_STR(p->node, "n");
    CHECK_INT(p->cpus, 4);
    CHECK_INT(p->gpus, 2);
    p->last_ms = uv_now(&t.loop) - 100;
    CHECK_STR(silent(t.server, 50), "w1");
    CHECK(silent(t.server, 5000) == NULL);
    p->ping_ms = 40;
    CHECK(silent(t.server, 50) == NULL);
    p->ping_ms = 5;
    transport_server_reset_deadlines(t.server);
    CHECK(silent(t.server, 50) == NULL);
    stop(&t);
}

/* ---- over a network ------------------------------------------------------------------------- */

static char dir[64];

enum theirs { RIGHT_KEY, WRONG_SECRET, WRONG_SERVER, NO_KEY };

/* A server with keys on a free port of loopback, and a worker with `theirs`. */
static void start_with_keys(struct ends *t, enum theirs theirs)
{
    struct err e = {0};
    AUTO(free) char *bound = NULL;
    *t = (struct ends){0};
    strcpy(dir, "/tmp/test_server.XXXXXX");
    CHECK(mkdtemp(dir) != NULL);
    CHECK_INT(curve_keys_of_sweep(&t->server_keys, &t->worker_keys, dir, &e), 0);
    snprintf(t->endpoint, sizeof t->endpoint, "ipc://%s/sock", dir);
    CHECK_INT(uv_loop_init(&t->loop), 0);
    uv_timer_init(&t->loop, &t->limit);
    listen_again(t);
    if (transport_server_listen(t->server, "tcp://127.0.0.1:0", &t->server_keys, &bound, &e) < 0)
        FAIL("%s", e.text);
    struct curve_keys keys = t->worker_keys;
    if (theirs == WRONG_SECRET) { /* the coordinator's own pair: a valid one, but not a worker's */
        memcpy(keys.secret, t->server_keys.secret, CURVE_KEYS_BYTES);
        memcpy(keys.own, t->server_keys.own, CURVE_KEYS_BYTES);
    }
    if (theirs == WRONG_SERVER)
        memcpy(keys.other, t->worker_keys.own, CURVE_KEYS_BYTES);
    const struct transport_client_opts to = {bound, "w1", theirs == NO_KEY ? NULL : &keys, 5000,
                                             3600000};
    if (transport_client_open(&t->client, &t->loop, &to, &client_events, t, &e) < 0)
        FAIL("%s", e.text);
}

static void stop_with_keys(struct ends *t)
{
    stop(t);
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -r %s", dir);
    CHECK_INT(system(cmd), 0);
}

TEST(a_worker_with_the_key_of_the_sweep_is_accepted_over_tcp)
{
    struct ends t;
    start_with_keys(&t, RIGHT_KEY);
    while (t.hellos == 0)
        receive_something(&t);
    report(&t, 1);
    while (t.reports == 0)
        receive_something(&t);
    CHECK_INT(t.rejected, 0);
    stop_with_keys(&t);
}

TEST(a_worker_with_a_wrong_key_is_rejected)
{
    struct ends t;
    start_with_keys(&t, WRONG_SECRET);
    while (!t.rejected)
        receive_something(&t);
    CHECK_INT(t.rejected, -EACCES);
    CHECK_INT(t.hellos, 0);
    stop_with_keys(&t);
}

static void on_poll_rejected(uv_timer_t *timer)
{
    struct ends *t = timer->data;
    if (transport_client_was_rejected(t->client))
        uv_stop(&t->loop);
}

TEST(a_worker_without_a_key_or_with_another_coordinators_is_disconnected)
{
    for (int theirs = WRONG_SERVER; theirs <= NO_KEY; theirs++) {
        struct ends t;
        uv_timer_t look;
        start_with_keys(&t, (enum theirs)theirs);
        uv_timer_init(&t.loop, &look);
        look.data = &t;
        uv_timer_start(&look, on_poll_rejected, 5, 5);
        receive_something(&t);
        CHECK(transport_client_was_rejected(t.client));
        CHECK(!transport_client_was_ever_open(t.client));
        CHECK_INT(t.opened + t.hellos + t.rejected, 0);
        uv_close((uv_handle_t *)&look, NULL);
        stop_with_keys(&t);
    }
}

TEST(valid_and_invalid_ids_of_workers)
{
    CHECK(peer_table_id_ok("n1-17-00ff", 10));
    CHECK(!peer_table_id_ok("", 0));
    CHECK(!peer_table_id_ok("a b", 3));
    CHECK(!peer_table_id_ok("\0abc", 4)); /* as ZeroMQ generates */
    char longest[WIRE_WORKER_MAX + 1];
    memset(longest, 'a', sizeof longest);
    CHECK(peer_table_id_ok(longest, WIRE_WORKER_MAX));
    CHECK(!peer_table_id_ok(longest, WIRE_WORKER_MAX + 1));
}

TEST(ten_thousand_workers_are_found_by_their_ids)
{
    struct peer_table table = {0}, *p = &table;
    char id[32];
    for (int i = 0; i < 10000; i++) {
        snprintf(id, sizeof id, "w%d", i);
        peer_table_add(p, id)->conn = i;
    }
    CHECK_INT(p->count, 10000);
    CHECK_INT(peer_table_find(p, "w9999")->conn, 9999);
    CHECK_INT(peer_table_add(p, "w17")->conn, 17);
    CHECK(peer_table_find(p, "w10000") == NULL);
    peer_table_clear(p);
}
