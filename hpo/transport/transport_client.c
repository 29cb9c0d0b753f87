#include "hpo/transport/transport_client.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <zmq.h>

#include "common/log.h"
#include "common/states.h"
#include "hpo/transport/zmq_uv.h"

enum {
    BATCH = 64,        /* messages that are received per iteration of the loop */
    UNREAD_MAX = 1000, /* limit on unread messages; further ones wait at the coordinator */
    RECONNECT_MS = 50,
    RECONNECT_MAX_MS = 1000,
    CONNECT_MS = 2000, /* time limit for connecting; then the client tries again */
    LINGER_MS = 500,
    RENEW_AFTER = 32 /* a connection is renewed after it has received this many messages */
};

enum link_state {
    LINK_CLOSED,   /* no connection; ZeroMQ connects again */
    LINK_REJECTED, /* the same, and the last handshake failed */
    LINK_OPEN,
    LINK_LOSSY /* open, but a message could not be sent */
};

enum link_event {
    LINK_EV_HANDSHAKE, /* a new connection; the same if messages must be sent again */
    LINK_EV_REFUSED,   /* the handshake failed */
    LINK_EV_BROKEN,    /* the connection has ended, or is given up */
    LINK_EV_UNSENT     /* a message could not be sent */
};

#define ROW(...) STATES_ROW(LINK, __VA_ARGS__)
static const struct states_row link_rows[] = {
    ROW(CLOSED, HANDSHAKE, OPEN), ROW(CLOSED, REFUSED, REJECTED), ROW(REJECTED, HANDSHAKE, OPEN),
    ROW(OPEN, HANDSHAKE, OPEN),   ROW(OPEN, REFUSED, REJECTED),   ROW(OPEN, BROKEN, CLOSED),
    ROW(OPEN, UNSENT, LOSSY),     ROW(LOSSY, HANDSHAKE, OPEN),    ROW(LOSSY, REFUSED, REJECTED),
    ROW(LOSSY, BROKEN, CLOSED),
};
static const struct states link_states = STATES_TABLE(link_rows);

struct transport_client {
    uv_loop_t *loop;
    void *zmq, *sock, *monitor;
    struct zmq_uv *on_sock, *on_monitor;
    const struct transport_client_events *ev;
    void *arg;
    int64_t conn; /* number of the present connection, counted from 1 */
    enum link_state link;
    uint64_t last_ms;
    char *endpoint;
    int renew_ms;
    int received; /* number of messages received on this connection */
    bool pinned;  /* the connection is not renewed */
    uint64_t renew_at_ms;
};

static void step(struct transport_client *c, enum link_event event)
{
    int next = states_step(&link_states, c->link, event, "connection %lld", (long long)c->conn);
    if (next >= 0)
        c->link = (enum link_state)next;
}

static bool is_open(const struct transport_client *c)
{
    return c->link == LINK_OPEN || c->link == LINK_LOSSY;
}

void transport_client_send(struct transport_client *c, const struct wire_msg *m)
{
    if (!is_open(c))
        return;
    struct wire_msg numbered = *m;
    numbered.conn = c->conn;
    struct err e = {0};
    AUTO(strbuf) struct strbuf b = {0};
    if (wire_encode(&b, &numbered, &e) < 0) {
        log_error("%s", e.text);
    } else if (zmq_send(c->sock, b.data, b.len, ZMQ_DONTWAIT) < 0) {
        log_warn("message '%s' not sent: %s", wire_kind_name(m->kind), zmq_strerror(errno));
        step(c, LINK_EV_UNSENT);
    }
}

static void opened(struct transport_client *c)
{
    unsigned random = 0; /* stays 0 if the system has no random numbers */
    (void)uv_random(NULL, NULL, &random, sizeof random, 0, NULL);
    c->renew_at_ms = uv_now(c->loop) + (unsigned)c->renew_ms + random % (unsigned)c->renew_ms;
    c->received = 0;
    c->conn++;
    step(c, LINK_EV_HANDSHAKE);
    c->ev->opened(c->arg);
}

/* Replaces the connection by a new one. Messages that are not acknowledged are sent again when the
 * new connection opens, as after a broken connection. */
static void renew(struct transport_client *c)
{
    c->received = 0;
    if (zmq_disconnect(c->sock, c->endpoint) < 0) { /* the old connection stays */
        log_warn("%s: cannot renew the connection: %s", c->endpoint, zmq_strerror(errno));
        return;
    }
    step(c, LINK_EV_BROKEN);
    if (zmq_connect(c->sock, c->endpoint) < 0)
        log_error("%s: cannot connect: %s", c->endpoint, zmq_strerror(errno));
}

static void recv_frame(struct transport_client *c, zmq_msg_t *frame)
{
    struct err e = {0};
    struct wire_msg m;
    int rc = wire_decode(&m, zmq_msg_data(frame), zmq_msg_size(frame), &e);
    if (rc == -EPROTONOSUPPORT) {
        err_set(&e, rc, "the coordinator has another version of drover");
        err_hint(&e, "install the same version on all nodes");
        c->ev->rejected(c->arg, &e);
        return;
    }
    if (rc < 0) {
        log_warn("dropped a message of the coordinator: %s", e.text);
        return;
    }
    if (m.conn == c->conn) {
        c->last_ms = uv_now(c->loop);
        c->received++;
        if (m.kind == WIRE_RECONNECT)
            opened(c);
        else
            c->ev->message(c->arg, &m);
    }
    wire_msg_clear(&m);
}

static void on_messages(struct zmq_uv *z, void *arg)
{
    struct transport_client *c = arg;
    for (int i = 0; i < BATCH; i++) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        int n = zmq_msg_recv(&frame, c->sock, ZMQ_DONTWAIT);
        if (n >= 0)
            recv_frame(c, &frame);
        zmq_msg_close(&frame);
        if (n < 0)
            break;
    }
    if (c->link == LINK_LOSSY)
        opened(c); /* messages that are not acknowledged are sent again, as on a new connection */
    if (is_open(c) && !c->pinned && c->received >= RENEW_AFTER && uv_now(c->loop) >= c->renew_at_ms)
        renew(c);
}

static void reject_key(struct transport_client *c)
{
    struct err e = {0};
    err_set(&e, -EACCES, "the coordinator rejects the key");
    err_hint(&e, "copy the worker.key that is in the sweep's directory now");
    c->ev->rejected(c->arg, &e);
}

static void on_events(struct zmq_uv *z, void *arg)
{
    struct transport_client *c = arg;
    uint16_t event;
    uint32_t value;
    for (int i = 0; i < BATCH && zmq_uv_event(c->monitor, &event, &value); i++) {
        if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
            opened(c);
            continue;
        }
        step(c, event == ZMQ_EVENT_DISCONNECTED ? LINK_EV_BROKEN : LINK_EV_REFUSED);
        if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
            reject_key(c);
    }
}

static int set_options(void *sock, const struct transport_client_opts *opts, struct err *e)
{
    const struct zmq_uv_option ints[] = {
        {ZMQ_LINGER, LINGER_MS},
        {ZMQ_SNDHWM, 0},
        {ZMQ_RCVHWM, UNREAD_MAX},
        {ZMQ_RECONNECT_IVL, RECONNECT_MS},
        {ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS},
        {ZMQ_IPV6, 1},
        {ZMQ_CONNECT_TIMEOUT, CONNECT_MS},
        {ZMQ_HEARTBEAT_IVL, opts->beat_ms},
        {ZMQ_HEARTBEAT_TIMEOUT, 2 * opts->beat_ms},
    };
    int rc = zmq_uv_set(sock, ints, COUNT_OF(ints), e);
    if (rc < 0)
        return rc;
    int64_t max = WIRE_MAX_BYTES;
    if (zmq_setsockopt(sock, ZMQ_MAXMSGSIZE, &max, sizeof max) < 0 ||
        zmq_setsockopt(sock, ZMQ_ROUTING_ID, opts->id, strlen(opts->id)) < 0)
        return zmq_uv_failed("socket", e);
    const struct curve_keys *k = opts->keys;
    if (k && (zmq_setsockopt(sock, ZMQ_CURVE_SERVERKEY, k->other, CURVE_KEYS_BYTES) < 0 ||
              zmq_setsockopt(sock, ZMQ_CURVE_PUBLICKEY, k->own, CURVE_KEYS_BYTES) < 0 ||
              zmq_setsockopt(sock, ZMQ_CURVE_SECRETKEY, k->secret, CURVE_KEYS_BYTES) < 0))
        return zmq_uv_failed("keys", e);
    return 0;
}

static int open_sockets(struct transport_client *c, const struct transport_client_opts *opts,
                        struct err *e)
{
    static const char monitor[] = "inproc://client-monitor";
    c->zmq = zmq_ctx_new();
    c->sock = c->zmq ? zmq_socket(c->zmq, ZMQ_DEALER) : NULL;
    if (!c->sock)
        return zmq_uv_failed("socket", e);
    int rc = set_options(c->sock, opts, e);
    if (rc < 0)
        return rc;
    rc = zmq_uv_monitor(&c->monitor, c->zmq, c->sock, monitor,
                        ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                            ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                            ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH,
                        e);
    if (rc == 0)
        rc = zmq_uv_open(&c->on_monitor, c->loop, c->monitor, on_events, c, e);
    if (rc == 0)
        rc = zmq_uv_open(&c->on_sock, c->loop, c->sock, on_messages, c, e);
    if (rc < 0)
        return rc;
    if (zmq_connect(c->sock, opts->endpoint) < 0) {
        zmq_uv_failed(opts->endpoint, e);
        return err_hint(e, "an endpoint has the form ipc://PATH or tcp://HOST:PORT");
    }
    return 0;
}

int transport_client_open(struct transport_client **out, uv_loop_t *loop,
                          const struct transport_client_opts *opts,
                          const struct transport_client_events *ev, void *arg, struct err *e)
{
    assert(strlen(opts->id) <= WIRE_WORKER_MAX && opts->renew_ms > 0);
    AUTO(transport_client) struct transport_client *c = xzalloc(sizeof *c);
    c->loop = loop;
    c->ev = ev;
    c->arg = arg;
    c->endpoint = xstrdup(opts->endpoint);
    c->renew_ms = opts->renew_ms;
    c->last_ms = uv_now(loop);
    int rc = open_sockets(c, opts, e);
    if (rc < 0)
        return rc;
    *out = TAKE(c);
    return 0;
}

void transport_client_close(struct transport_client *c)
{
    if (!c)
        return;
    zmq_uv_close(c->on_sock);
    zmq_uv_close(c->on_monitor);
    if (c->monitor)
        zmq_close(c->monitor);
    if (c->sock)
        zmq_close(c->sock);
    if (c->zmq)
        zmq_ctx_term(c->zmq); /* waits until messages are sent, at most LINGER_MS */
    free(c->endpoint);
    free(c);
}

void transport_client_leave(struct transport_client *c)
{
    if (zmq_disconnect(c->sock, c->endpoint) < 0)
        log_debug("%s: cannot disconnect: %s", c->endpoint, zmq_strerror(errno));
    step(c, LINK_EV_BROKEN);
}

void transport_client_pin(struct transport_client *c)
{
    c->pinned = true;
}

int64_t transport_client_silent_ms(const struct transport_client *c)
{
    return (int64_t)(uv_now(c->loop) - c->last_ms);
}

void transport_client_reset_deadline(struct transport_client *c)
{
    c->last_ms = uv_now(c->loop);
}

bool transport_client_was_rejected(const struct transport_client *c)
{
    return c->link == LINK_REJECTED;
}

bool transport_client_was_ever_open(const struct transport_client *c)
{
    return c->conn > 0;
}
