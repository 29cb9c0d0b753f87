/* test_transport_client - a worker's connection to a real server: it reconnects, counts its
 * connections, notices that it is rejected, and measures the silence. */
#include "hpo/transport/transport_client.h"

#include <sys/stat.h>
#include <zmq.h>

#include "hpo/transport/transport_server.h"
#include "tests/unit/test.h"

enum { LIMIT_MS = 20000 };

struct ends {
    uv_loop_t loop;
    uv_timer_t limit;
    char dir[64], endpoint[96];
    struct transport_server *server;
    struct transport_client *client;
    int opened;       /* connections */
    int hellos;       /* at the server */
    int messages;     /* at the client */
    int64_t received; /* the last seq at the server */
    int64_t unacknowledged;
    enum wire_kind last; /* message at the client */
    struct err rejected;
    struct curve_keys server_keys, worker_keys;
};

static void on_server_message(void *arg, const char *worker, const struct wire_msg *m)
{
    struct ends *t = arg;
    CHECK_STR(worker, "w1");
    t->hellos += m->kind == WIRE_HELLO;
    if (m->kind == WIRE_REPORT) {
        CHECK(m->seq == t->received || m->seq == t->received + 1); /* a resent one is a duplicate */
        t->received = m->seq;
    }
}

static void on_batch_end(void *arg)
{
}

static const struct transport_server_events server_events = {on_server_message, on_batch_end};

static void send_report(struct ends *t, int64_t seq)
{
    struct wire_msg m = {.kind = WIRE_REPORT,
                         .instance = 1,
                         .lease = 1,
                         .seq = seq,
                         .data = json_pack("{s:i}", "step", 1)};
    transport_client_send(t->client, &m);
    wire_msg_clear(&m);
}

static void on_opened(void *arg)
{
    struct ends *t = arg;
    struct wire_msg hello = {.kind = WIRE_HELLO};
    hello.data = json_pack("{s:s,s:i,s:[],s:i,s:i,s:i}", "node", "n", "slots", 1, "running", "cpus",
                           1, "gpus", 0, "ping_ms", 100);
    t->opened++;
    transport_client_send(t->client, &hello);
    wire_msg_clear(&hello);
    if (t->unacknowledged)
        send_report(t, t->unacknowledged);
}

static void on_message(void *arg, const struct wire_msg *m)
{
    struct ends *t = arg;
    t->messages++;
    t->last = m->kind;
}

static void on_rejected(void *arg, const struct err *e)
{
    ((struct ends *)arg)->rejected = *e;
}

static const struct transport_client_events client_events = {on_opened, on_message, on_rejected};

static void on_limit(uv_timer_t *t)
{
    FAIL("the awaited event did not come within %d ms", LIMIT_MS);
}

/* Runs the loop until the condition holds. */
#define UNTIL(t, condition)                                 \
    do {                                                    \
        uv_timer_start(&(t)->limit, on_limit, LIMIT_MS, 0); \
        while (!(condition))                                \
            uv_run(&(t)->loop, UV_RUN_ONCE);                \
        uv_timer_stop(&(t)->limit);                         \
    } while (0)

static void open_server(struct ends *t)
{
    struct err e = {0};
    if (transport_server_open(&t->server, &t->loop, t->endpoint, &server_events, t, &e) < 0)
        FAIL("%s", e.text);
}

static void open_client(struct ends *t, const char *endpoint, const struct curve_keys *keys)
{
    struct err e = {0};
    const struct transport_client_opts opts = {endpoint, "w1", keys, 5000, 3600000};
    if (transport_client_open(&t->client, &t->loop, &opts, &client_events, t, &e) < 0)
        FAIL("%s", e.text);
}

static void open_loop(struct ends *t)
{
    *t = (struct ends){0};
    strcpy(t->dir, "/tmp/test_client.XXXXXX");
    CHECK(mkdtemp(t->dir));
    snprintf(t->endpoint, sizeof t->endpoint, "ipc://%s/sock", t->dir);
    CHECK_INT(uv_loop_init(&t->loop), 0);
    uv_timer_init(&t->loop, &t->limit);
}

static void open_both(struct ends *t)
{
    open_loop(t);
    open_server(t);
    open_client(t, t->endpoint, NULL);
    UNTIL(t, t->hellos == 1);
}

static void close_ends(struct ends *t)
{
    char command[96];
    transport_client_close(t->client);
    transport_server_close(t->server);
    uv_close((uv_handle_t *)&t->limit, NULL);
    uv_run(&t->loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&t->loop), 0);
    snprintf(command, sizeof command, "rm -r %s", t->dir);
    CHECK_INT(system(command), 0);
}

static void server_sends(struct ends *t, enum wire_kind kind)
{
    struct err e = {0};
    const struct wire_msg m = {.kind = kind, .lease = kind == WIRE_STOP ? 1 : 0};
    CHECK_INT(transport_server_send(t->server, "w1", &m, &e), 0);
}

TEST(a_client_connects_and_both_ends_receive_messages)
{
    struct ends t;
    open_loop(&t);
    open_client(&t, t.endpoint, NULL);
    CHECK(!transport_client_was_ever_open(t.client));
    send_report(&t, 7); /* there is no connection: the message is dropped */
    open_server(&t);
    UNTIL(&t, t.hellos == 1);
    CHECK(transport_client_was_ever_open(t.client));
    CHECK(!transport_client_was_rejected(t.client));
    CHECK_INT(t.received, 0);
    send_report(&t, 1);
    UNTIL(&t, t.received == 1);
    server_sends(&t, WIRE_STOP);
    UNTIL(&t, t.messages == 1);
    CHECK_INT(t.last, WIRE_STOP);
    close_ends(&t);
}

TEST(a_client_connects_again_and_resends_what_was_not_acknowledged)
{
    struct ends t;
    open_both(&t);
    transport_server_close(t.server);
    t.unacknowledged = 1;
    send_report(&t, 1); /* lost with the connection, or dropped */
    open_server(&t);
    UNTIL(&t, t.received == 1);
    CHECK(t.opened >= 2); /* 3 if the report was still in ZeroMQ's queue: the server rejects it */
    CHECK(t.hellos >= 2);
    close_ends(&t);
}

TEST(a_client_that_counts_as_lost_opens_a_connection_without_a_message)
{
    struct ends t;
    open_both(&t);
    transport_server_mark_lost(t.server, "w1");
    send_report(&t, 1); /* the server answers with WIRE_RECONNECT */
    t.unacknowledged = 1;
    UNTIL(&t, t.received == 1);
    CHECK(t.opened >= 2);
    CHECK_INT(t.messages, 0);
    close_ends(&t);
}

static void be_silent(struct ends *t, int64_t ms)
{
    while (transport_client_silent_ms(t->client) < ms)
        uv_run(&t->loop, UV_RUN_NOWAIT);
}

TEST(the_silence_is_measured_since_the_last_message)
{
    struct ends t;
    open_both(&t);
    server_sends(&t, WIRE_PONG);
    UNTIL(&t, t.messages == 1);
    be_silent(&t, 50);
    transport_client_reset_deadline(t.client); /* this process did not read */
    CHECK_INT(transport_client_silent_ms(t.client), 0);
    be_silent(&t, 50);
    server_sends(&t, WIRE_PONG);
    UNTIL(&t, t.messages == 2);
    CHECK(transport_client_silent_ms(t.client) < 50);
    close_ends(&t);
}

/* A server with keys on a free port of loopback, and a client with `keys`. */
static void open_with_keys(struct ends *t, bool right)
{
    struct err e = {0};
    AUTO(free) char *bound = NULL;
    open_loop(t);
    CHECK_INT(curve_keys_of_sweep(&t->server_keys, &t->worker_keys, t->dir, &e), 0);
    open_server(t);
    if (transport_server_listen(t->server, "tcp://127.0.0.1:0", &t->server_keys, &bound, &e) < 0)
        FAIL("%s", e.text);
    if (!right) { /* a valid pair, but not the worker's */
        memcpy(t->worker_keys.secret, t->server_keys.secret, CURVE_KEYS_BYTES);
        memcpy(t->worker_keys.own, t->server_keys.own, CURVE_KEYS_BYTES);
    }
    open_client(t, bound, &t->worker_keys);
}

TEST(a_client_with_a_wrong_key_is_rejected_with_a_hint)
{
    struct ends t;
    open_with_keys(&t, false);
    UNTIL(&t, t.rejected.code);
    CHECK_INT(t.rejected.code, -EACCES);
    CHECK_HAS(t.rejected.text, "rejects the key");
    CHECK_HAS(t.rejected.hint, "worker.key");
    CHECK(!transport_client_was_ever_open(t.client));
    CHECK(transport_client_was_rejected(t.client));
    CHECK_INT(t.hellos, 0);
    close_ends(&t);
}

TEST(a_client_with_the_right_key_connects)
{
    struct ends t;
    open_with_keys(&t, true);
    UNTIL(&t, t.hellos == 1);
    CHECK_INT(t.rejected.code, 0);
    close_ends(&t);
}

/* A server that has another version of the protocol. */
TEST(a_client_of_another_version_is_rejected)
{
    static const char answer[] = "{\"v\":1,\"kind\":\"pong\",\"conn\":1}";
    struct ends t;
    open_loop(&t);
    void *zmq = zmq_ctx_new(), *router = zmq_socket(zmq, ZMQ_ROUTER);
    CHECK_INT(zmq_bind(router, t.endpoint), 0);
    open_client(&t, t.endpoint, NULL);
    UNTIL(&t, t.opened == 1);
    char id[16], bytes[4096];
    CHECK_INT(zmq_recv(router, id, sizeof id, 0), 2);
    CHECK(zmq_recv(router, bytes, sizeof bytes, 0) > 0);
    CHECK_INT(zmq_send(router, id, 2, ZMQ_SNDMORE), 2);
    CHECK_INT(zmq_send(router, answer, sizeof answer - 1, 0), (int)sizeof answer - 1);
    UNTIL(&t, t.rejected.code);
    CHECK_INT(t.rejected.code, -EPROTONOSUPPORT);
    CHECK_HAS(t.rejected.text, "version");
    int no_linger = 0;
    CHECK_INT(zmq_setsockopt(router, ZMQ_LINGER, &no_linger, sizeof no_linger), 0);
    zmq_close(router);
    zmq_ctx_term(zmq);
    close_ends(&t);
}

TEST(an_endpoint_that_is_not_one_is_an_error)
{
    struct ends t;
    struct err e = {0};
    open_loop(&t);
    const struct transport_client_opts opts = {"nowhere", "w1", NULL, 5000, 3600000};
    CHECK(transport_client_open(&t.client, &t.loop, &opts, &client_events, &t, &e) < 0);
    CHECK_HAS(e.text, "nowhere");
    CHECK_HAS(e.hint, "tcp://HOST:PORT");
    CHECK(!t.client);
    close_ends(&t);
}
