#include "hpo/transport/transport_client.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <zmq.h>

#include "common/log.h"
#include "common/zmq_uv.h"

enum {
    BATCH = 64,        /* messages in one turn */
    UNREAD_MAX = 1000, /* more wait with the coordinator */
    RECONNECT_MS = 50,
    RECONNECT_MAX_MS = 1000,
    CONNECT_MS = 2000, /* for a connection to be taken; then it is tried again */
    LINGER_MS = 500,
    RENEW_AFTER = 32 /* messages that were heard */
};

struct transport_client {
    uv_loop_t *loop;
    void *zmq, *sock, *monitor;
    struct zmq_uv *on_sock, *on_monitor;
    const struct transport_client_events *ev;
    void *arg;
    int64_t conn; /* how many have opened */
    bool open;
    bool shut_out; /* the last handshake failed */
    uint64_t heard_ms;
    char *endpoint;
    int renew_ms;
    int carried; /* messages heard on this connection */
    bool kept;   /* it is not renewed */
    uint64_t renew_at_ms;
};

static int failed(const char *what, struct err *e)
{
    int code = errno;
    return err_set(e, code < ZMQ_HAUSNUMERO ? -code : -EIO, "%s: %s", what, zmq_strerror(code));
}

void transport_client_send(struct transport_client *l, const struct wire_msg *m)
{
    if (!l->open)
        return;
    struct wire_msg said = *m;
    said.conn = l->conn;
    struct err e = {0};
    AUTO(strbuf) struct strbuf b = {0};
    if (wire_encode(&b, &said, &e) < 0)
        log_error("%s", e.text);
    else if (zmq_send(l->sock, b.data, b.len, ZMQ_DONTWAIT) < 0)
        log_warn("message '%s' not sent: %s", wire_kind_name(m->kind), zmq_strerror(errno));
}

static void opened(struct transport_client *l)
{
    unsigned random = 0; /* stays so where the system has none */
    (void)uv_random(NULL, NULL, &random, sizeof random, 0, NULL);
    l->renew_at_ms = uv_now(l->loop) + (unsigned)l->renew_ms + random % (unsigned)l->renew_ms;
    l->carried = 0;
    l->open = true;
    l->shut_out = false;
    l->conn++;
    l->ev->opened(l->arg);
}

/* What is on its way is said again when the new connection has opened, as after one that broke. */
static void renew(struct transport_client *l)
{
    l->carried = 0;
    if (zmq_disconnect(l->sock, l->endpoint) < 0) { /* the old one goes on */
        log_warn("%s: the connection is not renewed: %s", l->endpoint, zmq_strerror(errno));
        return;
    }
    l->open = false;
    if (zmq_connect(l->sock, l->endpoint) < 0)
        log_error("%s: no new connection: %s", l->endpoint, zmq_strerror(errno));
}

static void take(struct transport_client *l, zmq_msg_t *frame)
{
    struct err e = {0};
    struct wire_msg m;
    int rc = wire_decode(&m, zmq_msg_data(frame), zmq_msg_size(frame), &e);
    if (rc == -EPROTONOSUPPORT) {
        err_set(&e, rc, "the coordinator has another version of drover");
        err_hint(&e, "install the same version on all nodes");
        l->ev->rejected(l->arg, &e);
        return;
    }
    if (rc < 0) {
        log_warn("dropped: %s", e.text);
        return;
    }
    if (m.conn == l->conn) {
        l->heard_ms = uv_now(l->loop);
        l->carried++;
        if (m.kind == WIRE_RECONNECT)
            opened(l);
        else
            l->ev->message(l->arg, &m);
    }
    wire_msg_clear(&m);
}

static void on_messages(struct zmq_uv *z, void *arg)
{
    struct transport_client *l = arg;
    for (int i = 0; i < BATCH; i++) {
        zmq_msg_t frame;
        zmq_msg_init(&frame);
        int n = zmq_msg_recv(&frame, l->sock, ZMQ_DONTWAIT);
        if (n >= 0)
            take(l, &frame);
        zmq_msg_close(&frame);
        if (n < 0)
            break;
    }
    if (l->open && !l->kept && l->carried >= RENEW_AFTER && uv_now(l->loop) >= l->renew_at_ms)
        renew(l);
}

static void wrong_key(struct transport_client *l)
{
    struct err e = {0};
    err_set(&e, -EACCES, "the coordinator rejects the key");
    err_hint(&e, "copy the worker.key that is in the sweep's directory now");
    l->ev->rejected(l->arg, &e);
}

/* An event is two frames: its number and value, then the address. */
static void on_events(struct zmq_uv *z, void *arg)
{
    struct transport_client *l = arg;
    for (int i = 0; i < BATCH; i++) {
        unsigned char head[6];
        char address[256];
        int n = zmq_recv(l->monitor, head, sizeof head, ZMQ_DONTWAIT);
        if (n < 0)
            return;
        (void)zmq_recv(l->monitor, address, sizeof address, 0); /* comes with the first */
        uint16_t event;
        memcpy(&event, head, sizeof event);
        if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
            opened(l);
            continue;
        }
        l->open = false;
        l->shut_out = l->shut_out || event != ZMQ_EVENT_DISCONNECTED;
        if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
            wrong_key(l);
    }
}

static int set_options(void *sock, const struct transport_client_opts *to, struct err *e)
{
    const struct {
        int option, value;
    } ints[] = {
        {ZMQ_LINGER, LINGER_MS},
        {ZMQ_SNDHWM, 0},
        {ZMQ_RCVHWM, UNREAD_MAX},
        {ZMQ_RECONNECT_IVL, RECONNECT_MS},
        {ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS},
        {ZMQ_IPV6, 1},
        {ZMQ_CONNECT_TIMEOUT, CONNECT_MS},
        {ZMQ_HEARTBEAT_IVL, to->beat_ms},
        {ZMQ_HEARTBEAT_TIMEOUT, 2 * to->beat_ms},
    };
    for (size_t i = 0; i < COUNT_OF(ints); i++)
        if (zmq_setsockopt(sock, ints[i].option, &ints[i].value, sizeof(int)) < 0)
            return failed("socket", e);
    int64_t max = WIRE_MAX_BYTES;
    if (zmq_setsockopt(sock, ZMQ_MAXMSGSIZE, &max, sizeof max) < 0 ||
        zmq_setsockopt(sock, ZMQ_ROUTING_ID, to->id, strlen(to->id)) < 0)
        return failed("socket", e);
    const struct curve_keys *k = to->keys;
    if (k && (zmq_setsockopt(sock, ZMQ_CURVE_SERVERKEY, k->other, CURVE_KEYS_BYTES) < 0 ||
              zmq_setsockopt(sock, ZMQ_CURVE_PUBLICKEY, k->own, CURVE_KEYS_BYTES) < 0 ||
              zmq_setsockopt(sock, ZMQ_CURVE_SECRETKEY, k->secret, CURVE_KEYS_BYTES) < 0))
        return failed("keys", e);
    return 0;
}

static int open_sockets(struct transport_client *l, const struct transport_client_opts *to,
                        struct err *e)
{
    static const char monitor[] = "inproc://link-monitor";
    l->zmq = zmq_ctx_new();
    l->sock = l->zmq ? zmq_socket(l->zmq, ZMQ_DEALER) : NULL;
    l->monitor = l->sock ? zmq_socket(l->zmq, ZMQ_PAIR) : NULL;
    if (!l->monitor)
        return failed("socket", e);
    int rc = set_options(l->sock, to, e);
    if (rc < 0)
        return rc;
    if (zmq_socket_monitor(l->sock, monitor,
                           ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                               ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                               ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                               ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) < 0 ||
        zmq_connect(l->monitor, monitor) < 0)
        return failed("socket monitor", e);
    rc = zmq_uv_open(&l->on_monitor, l->loop, l->monitor, on_events, l, e);
    if (rc == 0)
        rc = zmq_uv_open(&l->on_sock, l->loop, l->sock, on_messages, l, e);
    if (rc < 0)
        return rc;
    if (zmq_connect(l->sock, to->endpoint) < 0) {
        failed(to->endpoint, e);
        return err_hint(e, "an endpoint is written as ipc://PATH or tcp://HOST:PORT");
    }
    return 0;
}

int transport_client_open(struct transport_client **out, uv_loop_t *loop,
                          const struct transport_client_opts *to,
                          const struct transport_client_events *ev, void *arg, struct err *e)
{
    assert(strlen(to->id) <= WIRE_WORKER_MAX && to->renew_ms > 0);
    AUTO(transport_client) struct transport_client *l = xzalloc(sizeof *l);
    l->loop = loop;
    l->ev = ev;
    l->arg = arg;
    l->endpoint = xstrdup(to->endpoint);
    l->renew_ms = to->renew_ms;
    l->heard_ms = uv_now(loop);
    int rc = open_sockets(l, to, e);
    if (rc < 0)
        return rc;
    *out = TAKE(l);
    return 0;
}

void transport_client_close(struct transport_client *l)
{
    if (!l)
        return;
    zmq_uv_close(l->on_sock);
    zmq_uv_close(l->on_monitor);
    if (l->monitor)
        zmq_close(l->monitor);
    if (l->sock)
        zmq_close(l->sock);
    if (l->zmq)
        zmq_ctx_term(l->zmq); /* waits for what lingers */
    free(l->endpoint);
    free(l);
}

void transport_client_pin(struct transport_client *l)
{
    l->kept = true;
}

int64_t transport_client_silent_ms(const struct transport_client *l)
{
    return (int64_t)(uv_now(l->loop) - l->heard_ms);
}

void transport_client_reset_deadline(struct transport_client *l)
{
    l->heard_ms = uv_now(l->loop);
}

bool transport_client_was_rejected(const struct transport_client *l)
{
    return l->shut_out;
}

bool transport_client_was_ever_open(const struct transport_client *l)
{
    return l->conn > 0;
}
