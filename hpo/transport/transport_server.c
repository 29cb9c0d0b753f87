#include "hpo/transport/transport_server.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <zmq.h>

#include "common/log.h"
#include "common/zmq_uv.h"
#include "hpo/transport/log_throttle.h"
#include "hpo/transport/zap_auth.h"

enum {
    BATCH = 256, /* messages in one turn, and so in one commit */
    LINGER_MS = 500,
    UNREAD_MAX = 10000,  /* messages to a worker that reads none, or from one while we are busy */
    ZERO_COPY_RECV = 10, /* ZMQ_ZERO_COPY_RECV, which zmq.h hides among its drafts */
    OWN_PAGES = 16384    /* bytes: a block of libzmq's queues, and its buffer for what arrives */
};

struct transport_server {
    uv_loop_t *loop;
    void *zmq, *sock;
    struct zmq_uv *on_sock;
    struct zap_auth *door; /* NULL: workers of this machine alone */
    char *file;            /* of an ipc:// endpoint that is bound; ZeroMQ leaves it behind */
    struct peer_table *peers;
    struct log_throttle dropped;
    const struct transport_server_events *ev;
    void *arg;
};

/* ---- saying --------------------------------------------------------------------------------- */

static int send_to(struct transport_server *h, const char *worker, int64_t conn,
                   const struct wire_msg *m, struct err *e)
{
    struct wire_msg said = *m;
    said.conn = conn;
    AUTO(strbuf) struct strbuf b = {0};
    int rc = wire_encode(&b, &said, e);
    if (rc < 0)
        return rc;
    if (zmq_send(h->sock, worker, strlen(worker), ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0 ||
        zmq_send(h->sock, b.data, b.len, ZMQ_DONTWAIT) < 0) {
        struct peer *p = errno == EAGAIN ? peer_table_find(h->peers, worker) : NULL;
        if (p)
            p->deaf = true;
        log_info("worker %s: '%s' not sent: %s", worker, wire_kind_name(m->kind),
                 zmq_strerror(errno));
    }
    return 0;
}

int transport_server_send(struct transport_server *h, const char *worker, const struct wire_msg *m,
                          struct err *e)
{
    const struct peer *p = peer_table_find(h->peers, worker);
    return p && !p->lost ? send_to(h, worker, p->conn, m, e) : 0;
}

/* A message without data: it can always be said. */
static void say_plain(struct transport_server *h, const char *worker, int64_t conn,
                      enum wire_kind kind)
{
    (void)send_to(h, worker, conn, &(struct wire_msg){.kind = kind}, NULL);
}

void transport_server_broadcast(struct transport_server *h, enum wire_kind kind)
{
    for (size_t i = 0; i < peer_table_count(h->peers); i++) {
        const struct peer *p = peer_table_at(h->peers, i);
        if (!p->lost)
            say_plain(h, p->id, p->conn, kind);
    }
}

void transport_server_mark_lost(struct transport_server *h, const char *worker)
{
    struct peer *p = peer_table_find(h->peers, worker);
    if (p)
        p->lost = true;
}

const char *transport_server_silent(const struct transport_server *h, int64_t ms, size_t *from)
{
    while (*from < peer_table_count(h->peers)) {
        const struct peer *p = peer_table_at(h->peers, (*from)++);
        int64_t limit = ms > 3 * p->ping_ms ? ms : 3 * p->ping_ms;
        if (!p->lost && (p->deaf || (int64_t)(uv_now(h->loop) - p->heard_ms) >= limit))
            return p->id;
    }
    return NULL;
}

void transport_server_reset_deadlines(struct transport_server *h)
{
    for (size_t i = 0; i < peer_table_count(h->peers); i++)
        peer_table_at(h->peers, i)->heard_ms = uv_now(h->loop);
}

const struct peer_table *transport_server_peers(const struct transport_server *h)
{
    return h->peers;
}

/* ---- hearing -------------------------------------------------------------------------------- */

static void introduce(struct peer *p, const struct wire_msg *hello)
{
    const json_t *d = hello->data;
    const struct peer was = *p;
    p->conn = hello->conn;
    p->lost = p->deaf = false;
    snprintf(p->node, sizeof p->node, "%s", json_string_value(json_object_get(d, "node")));
    p->slots = (int)json_integer_value(json_object_get(d, "slots"));
    p->cpus = (int)json_integer_value(json_object_get(d, "cpus"));
    p->gpus = (int)json_integer_value(json_object_get(d, "gpus"));
    p->ping_ms = (int)json_integer_value(json_object_get(d, "ping_ms"));
    p->renewed = was.conn > 0 && !was.lost && strcmp(was.node, p->node) == 0 &&
                 was.slots == p->slots && was.cpus == p->cpus && was.gpus == p->gpus;
}

/* Whether the message is of the worker's present connection. A hello opens one. */
static bool counts(struct transport_server *h, const char *id, const struct wire_msg *m)
{
    struct peer *p = peer_table_find(h->peers, id);
    if (m->kind == WIRE_HELLO) {
        p = peer_table_add(h->peers, id);
        if (m->conn <= p->conn)
            return false;
        introduce(p, m);
    }
    if (!p || (p->lost && m->conn == p->conn)) {
        say_plain(h, id, m->conn, WIRE_RECONNECT);
        return false;
    }
    if (m->conn != p->conn)
        return false;
    p->heard_ms = uv_now(h->loop);
    if (m->kind == WIRE_SLOTS)
        p->slots = (int)json_integer_value(json_object_get(m->data, "slots"));
    if (m->kind == WIRE_PING)
        say_plain(h, id, p->conn, WIRE_PONG);
    return m->kind != WIRE_PING;
}

static void take(struct transport_server *h, const char *id, zmq_msg_t *frame)
{
    struct err e = {0};
    struct wire_msg m;
    int rc = wire_decode(&m, zmq_msg_data(frame), zmq_msg_size(frame), &e);
    if (rc == -EPROTONOSUPPORT)
        say_plain(h, id, 1, WIRE_RECONNECT); /* in our version: it notices, and ends */
    if (rc < 0) {
        log_throttle_warn(&h->dropped, uv_now(h->loop), "worker %s: dropped: %s", id, e.text);
        return;
    }
    if (m.kind >= WIRE_REQUIREMENTS)
        log_throttle_warn(&h->dropped, uv_now(h->loop), "worker %s: '%s' is not for it to say", id,
                          wire_kind_name(m.kind));
    else if (counts(h, id, &m))
        h->ev->message(h->arg, id, &m);
    wire_msg_clear(&m);
}

/* Two frames: who, what. Returns false when there is none. */
static bool receive(struct transport_server *h)
{
    char id[WIRE_WORKER_MAX + 2] = "";
    int n = zmq_recv(h->sock, id, sizeof id - 1, ZMQ_DONTWAIT);
    if (n < 0)
        return false;
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    int more = 1, frames = 0;
    for (size_t size = sizeof more; more && zmq_msg_recv(&frame, h->sock, ZMQ_DONTWAIT) >= 0;) {
        frames++;
        if (zmq_getsockopt(h->sock, ZMQ_RCVMORE, &more, &size) < 0)
            break;
    }
    if (frames != 1 || !peer_table_id_ok(id, (size_t)n))
        log_throttle_warn(&h->dropped, uv_now(h->loop), "a message of no worker dropped");
    else
        take(h, id, &frame);
    zmq_msg_close(&frame);
    return true;
}

static void on_workers(struct zmq_uv *z, void *arg)
{
    struct transport_server *h = arg;
    for (int i = 0; i < BATCH && receive(h); i++)
        ;
    h->ev->batch_end(h->arg);
}

/* ---- life ----------------------------------------------------------------------------------- */

static int failed(const char *what, struct err *e)
{
    int code = errno;
    return err_set(e, code < ZMQ_HAUSNUMERO ? -code : -EIO, "%s: %s", what, zmq_strerror(code));
}

/* A connection's memory is libzmq's: four queues in blocks of 256 messages, 16 KiB each, and a
 * buffer of 18 KiB. As mappings of their own they take the pages that were written alone, and give
 * them back when a worker renews its connection (link.h). A message that is copied out of the
 * buffer leaves the buffer's second half, where libzmq counts who reads it, untouched. Both are
 * thrift: where they are not to be had it goes on. */
static void *new_context(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, OWN_PAGES);
    void *zmq = zmq_ctx_new();
    if (zmq)
        (void)zmq_ctx_set(zmq, ZERO_COPY_RECV, 0);
    return zmq;
}

static int open_socket(struct transport_server *h, const char *endpoint, struct err *e)
{
    const struct {
        int option, value;
    } ints[] = {
        {ZMQ_LINGER, LINGER_MS},   {ZMQ_SNDHWM, UNREAD_MAX}, {ZMQ_RCVHWM, UNREAD_MAX},
        {ZMQ_BACKLOG, 1024},       {ZMQ_ROUTER_HANDOVER, 1}, /* a worker that reconnects is the same
                                                                worker */
        {ZMQ_ROUTER_MANDATORY, 1},                           /* what cannot be sent is noticed */
    };
    h->zmq = new_context();
    h->sock = h->zmq ? zmq_socket(h->zmq, ZMQ_ROUTER) : NULL;
    if (!h->sock)
        return failed("socket", e);
    for (size_t i = 0; i < COUNT_OF(ints); i++)
        if (zmq_setsockopt(h->sock, ints[i].option, &ints[i].value, sizeof(int)) < 0)
            return failed("socket", e);
    int64_t max = WIRE_MAX_BYTES;
    if (zmq_setsockopt(h->sock, ZMQ_MAXMSGSIZE, &max, sizeof max) < 0)
        return failed("socket", e);
    if (zmq_bind(h->sock, endpoint) < 0)
        return failed(endpoint, e);
    if (strncmp(endpoint, "ipc://", 6) == 0)
        h->file = xstrdup(endpoint + 6);
    return 0;
}

int transport_server_open(struct transport_server **out, uv_loop_t *loop, const char *endpoint,
                          const struct transport_server_events *ev, void *arg, struct err *e)
{
    AUTO(transport_server) struct transport_server *h = xzalloc(sizeof *h);
    h->loop = loop;
    h->ev = ev;
    h->arg = arg;
    h->peers = peer_table_new();
    int rc = open_socket(h, endpoint, e);
    if (rc == 0)
        rc = zmq_uv_open(&h->on_sock, loop, h->sock, on_workers, h, e);
    if (rc < 0)
        return rc;
    *out = TAKE(h);
    return 0;
}

int transport_server_listen(struct transport_server *h, const char *address,
                            const struct curve_keys *keys, char **bound, struct err *e)
{
    assert(!h->door);
    const struct zap_auth_opts ask = {h->loop, h->zmq, h->sock, address, keys};
    return zap_auth_open(&h->door, &ask, bound, e);
}

void transport_server_close(struct transport_server *h)
{
    if (!h)
        return;
    zap_auth_close(h->door);
    zmq_uv_close(h->on_sock);
    if (h->sock)
        zmq_close(h->sock);
    if (h->zmq)
        zmq_ctx_term(h->zmq); /* waits for what lingers */
    if (h->file)
        (void)unlink(h->file); /* nobody is told of what is no longer needed */
    free(h->file);
    peer_table_free(h->peers);
    free(h);
}
