#include "hpo/transport/transport_server.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/stat.h>
#include <zmq.h>

#include "common/log.h"
#include "hpo/transport/log_throttle.h"
#include "hpo/transport/zap_auth.h"
#include "hpo/transport/zmq_uv.h"

enum {
    BATCH = 256, /* messages per iteration of the loop, and so per commit */
    LINGER_MS = 500,
    UNREAD_MAX = 10000,  /* limit on unread messages, to each worker and from each worker */
    ZERO_COPY_RECV = 10, /* ZMQ_ZERO_COPY_RECV, which zmq.h only declares in its draft API */
    MMAP_BYTES = 16384   /* malloc() maps blocks of this size or more; see new_context() */
};

struct transport_server {
    uv_loop_t *loop;
    void *zmq, *sock;
    struct zmq_uv *on_sock;
    struct zap_auth *auth; /* NULL: only workers on this node can connect */
    char *file; /* the socket's path, which ZeroMQ does not remove; NULL: not an ipc:// endpoint */
    struct peer_table peers;
    struct log_throttle dropped;
    const struct transport_server_events *ev;
    void *arg;
};

/* ---- sending -------------------------------------------------------------------------------- */

/* Sends the two frames of a message: the worker's id and the text. Allocates the second one before
 * it sends the first one: after half a message, libzmq takes the next frame for the other half. */
static int send_frames(struct transport_server *s, const char *worker, const struct strbuf *text)
{
    zmq_msg_t body;
    if (zmq_msg_init_size(&body, text->len) < 0)
        return -1;
    memcpy(zmq_msg_data(&body), text->data, text->len);
    if (zmq_send(s->sock, worker, strlen(worker), ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0 &&
        zmq_msg_send(&body, s->sock, ZMQ_DONTWAIT) >= 0)
        return 0;
    int code = errno;
    zmq_msg_close(&body);
    errno = code;
    return -1;
}

static int send_to(struct transport_server *s, const char *worker, int64_t conn,
                   const struct wire_msg *m, struct err *e)
{
    struct wire_msg numbered = *m;
    numbered.conn = conn;
    AUTO(strbuf) struct strbuf b = {0};
    int rc = wire_encode(&b, &numbered, e);
    if (rc < 0)
        return rc;
    if (send_frames(s, worker, &b) < 0) {
        /* A worker whose connection is gone sends a hello when it has a new one. */
        struct peer *p = errno == EHOSTUNREACH ? NULL : peer_table_find(&s->peers, worker);
        if (p)
            p->unsent = true;
        log_info("worker %s: '%s' not sent: %s", worker, wire_kind_name(m->kind),
                 zmq_strerror(errno));
    }
    return 0;
}

int transport_server_send(struct transport_server *s, const char *worker, const struct wire_msg *m,
                          struct err *e)
{
    const struct peer *p = peer_table_find(&s->peers, worker);
    return p && !p->lost ? send_to(s, worker, p->conn, m, e) : 0;
}

/* Sends a message without data, which wire_encode() always accepts. */
static void send_kind(struct transport_server *s, const char *worker, int64_t conn,
                      enum wire_kind kind)
{
    (void)send_to(s, worker, conn, &(struct wire_msg){.kind = kind}, NULL);
}

void transport_server_broadcast(struct transport_server *s, enum wire_kind kind)
{
    for (size_t i = 0; i < s->peers.count; i++) {
        const struct peer *p = &s->peers.list[i];
        if (!p->lost)
            send_kind(s, p->id, p->conn, kind);
    }
}

void transport_server_mark_lost(struct transport_server *s, const char *worker)
{
    struct peer *p = peer_table_find(&s->peers, worker);
    if (p)
        p->lost = true;
}

void transport_server_forget(struct transport_server *s, const char *worker)
{
    struct peer *p = peer_table_find(&s->peers, worker);
    transport_server_mark_lost(s, worker);
    if (p)
        p->conn = 0;
}

const char *transport_server_silent(const struct transport_server *s, int64_t ms, size_t *from)
{
    while (*from < s->peers.count) {
        const struct peer *p = &s->peers.list[(*from)++];
        int64_t limit = ms > 3 * p->ping_ms ? ms : 3 * p->ping_ms;
        if (!p->lost && (p->unsent || (int64_t)(uv_now(s->loop) - p->last_ms) >= limit))
            return p->id;
    }
    return NULL;
}

void transport_server_reset_deadlines(struct transport_server *s)
{
    for (size_t i = 0; i < s->peers.count; i++)
        s->peers.list[i].last_ms = uv_now(s->loop);
}

const struct peer_table *transport_server_peers(const struct transport_server *s)
{
    return &s->peers;
}

/* ---- receiving ------------------------------------------------------------------------------ */

static void update_peer(struct peer *p, const struct wire_msg *hello)
{
    const json_t *d = hello->data;
    const struct peer before = *p;
    p->conn = hello->conn;
    p->lost = p->unsent = false;
    snprintf(p->node, sizeof p->node, "%s", json_string_value(json_object_get(d, "node")));
    p->slots = (int)json_integer_value(json_object_get(d, "slots"));
    p->cpus = (int)json_integer_value(json_object_get(d, "cpus"));
    p->gpus = (int)json_integer_value(json_object_get(d, "gpus"));
    p->ping_ms = (int)json_integer_value(json_object_get(d, "ping_ms"));
    p->renewed = before.conn > 0 && !before.lost && strcmp(before.node, p->node) == 0 &&
                 before.slots == p->slots && before.cpus == p->cpus && before.gpus == p->gpus;
}

/* Updates the worker's entry from the message. Returns true if the message must be reported: it
 * arrived on the worker's present connection, which a hello opens, and is not a ping. */
static bool accept_message(struct transport_server *s, const char *id, const struct wire_msg *m)
{
    struct peer *p = peer_table_find(&s->peers, id);
    if (m->kind == WIRE_HELLO) {
        p = peer_table_add(&s->peers, id);
        if (m->conn <= p->conn)
            return false;
        update_peer(p, m);
    }
    /* The third case: the worker could not send the hello of this connection. */
    if (!p || (p->lost && m->conn == p->conn) || m->conn > p->conn) {
        send_kind(s, id, m->conn, WIRE_RECONNECT);
        return false;
    }
    if (m->conn != p->conn)
        return false;
    p->last_ms = uv_now(s->loop);
    if (m->kind == WIRE_SLOTS)
        p->slots = (int)json_integer_value(json_object_get(m->data, "slots"));
    if (m->kind == WIRE_PING)
        send_kind(s, id, p->conn, WIRE_PONG);
    return m->kind != WIRE_PING;
}

static void recv_frame(struct transport_server *s, const char *id, zmq_msg_t *frame)
{
    struct err e = {0};
    struct wire_msg m;
    int rc = wire_decode(&m, zmq_msg_data(frame), zmq_msg_size(frame), &e);
    if (rc == -EPROTONOSUPPORT)
        send_kind(s, id, 1, WIRE_RECONNECT); /* from this message the worker learns that the
                                                versions differ, and ends */
    if (rc < 0) {
        log_throttle_warn(&s->dropped, uv_now(s->loop), "worker %s: dropped a message: %s", id,
                          e.text);
        return;
    }
    if (m.kind >= WIRE_REQUIREMENTS)
        log_throttle_warn(&s->dropped, uv_now(s->loop),
                          "worker %s: unexpected message '%s' (dropped)", id,
                          wire_kind_name(m.kind));
    else if (accept_message(s, id, &m))
        s->ev->message(s->arg, id, &m);
    wire_msg_clear(&m);
}

/* Receives and handles one message, which has two frames: the worker's id and the message. Returns
 * false if no message waits. */
static bool recv_message(struct transport_server *s)
{
    char id[WIRE_WORKER_MAX + 2] = "";
    int n = zmq_recv(s->sock, id, sizeof id - 1, ZMQ_DONTWAIT);
    if (n < 0)
        return false;
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    int more = 1, frames = 0;
    for (size_t size = sizeof more; more && zmq_msg_recv(&frame, s->sock, ZMQ_DONTWAIT) >= 0;) {
        frames++;
        if (zmq_getsockopt(s->sock, ZMQ_RCVMORE, &more, &size) < 0)
            break;
    }
    if (frames != 1 || !peer_table_id_ok(id, (size_t)n))
        log_throttle_warn(&s->dropped, uv_now(s->loop), "dropped a message of an unknown format");
    else
        recv_frame(s, id, &frame);
    zmq_msg_close(&frame);
    return true;
}

static void on_workers(struct zmq_uv *z, void *arg)
{
    struct transport_server *s = arg;
    for (int i = 0; i < BATCH && recv_message(s); i++)
        ;
    s->ev->batch_end(s->arg);
}

/* ---- life ----------------------------------------------------------------------------------- */

/* Returns a context that needs little memory per connection. libzmq needs four queues in blocks of
 * 256 messages, 16 KiB each, and a buffer of 18 KiB. With M_MMAP_THRESHOLD each block is a mapping
 * of its own: it occupies only pages that were written, and returns them when a worker renews its
 * connection (transport_client.h). Without zero-copy receive, messages are copied out of the
 * buffer, and its second half, with libzmq's reference counts, is not written. Both options only
 * save memory, so a failure is ignored. */
static void *new_context(void)
{
    (void)mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
    void *zmq = zmq_ctx_new();
    if (zmq)
        (void)zmq_ctx_set(zmq, ZERO_COPY_RECV, 0);
    return zmq;
}

static int open_socket(struct transport_server *s, const char *endpoint, struct err *e)
{
    const struct zmq_uv_option ints[] = {
        {ZMQ_LINGER, LINGER_MS},   {ZMQ_SNDHWM, UNREAD_MAX}, {ZMQ_RCVHWM, UNREAD_MAX},
        {ZMQ_BACKLOG, 1024},       {ZMQ_ROUTER_HANDOVER, 1}, /* a worker that reconnects may keep
                                                                its id */
        {ZMQ_ROUTER_MANDATORY, 1},                           /* report failed sends */
    };
    s->zmq = new_context();
    s->sock = s->zmq ? zmq_socket(s->zmq, ZMQ_ROUTER) : NULL;
    if (!s->sock)
        return zmq_uv_failed("socket", e);
    int set = zmq_uv_set(s->sock, ints, COUNT_OF(ints), e);
    if (set < 0)
        return set;
    int64_t max = WIRE_MAX_BYTES;
    if (zmq_setsockopt(s->sock, ZMQ_MAXMSGSIZE, &max, sizeof max) < 0)
        return zmq_uv_failed("socket", e);
    bool is_file = strncmp(endpoint, "ipc://", 6) == 0;
    mode_t mask = umask(0177); /* only this user may connect: these connections need no key */
    int rc = zmq_bind(s->sock, endpoint), code = errno;
    umask(mask);
    errno = code;
    if (rc < 0)
        return zmq_uv_failed(endpoint, e);
    if (is_file)
        s->file = xstrdup(endpoint + 6);
    return 0;
}

int transport_server_open(struct transport_server **out, uv_loop_t *loop, const char *endpoint,
                          const struct transport_server_events *ev, void *arg, struct err *e)
{
    AUTO(transport_server) struct transport_server *s = xzalloc(sizeof *s);
    s->loop = loop;
    s->ev = ev;
    s->arg = arg;
    int rc = open_socket(s, endpoint, e);
    if (rc == 0)
        rc = zmq_uv_open(&s->on_sock, loop, s->sock, on_workers, s, e);
    if (rc < 0)
        return rc;
    *out = TAKE(s);
    return 0;
}

int transport_server_listen(struct transport_server *s, const char *address,
                            const struct curve_keys *keys, char **bound, struct err *e)
{
    assert(!s->auth);
    const struct zap_auth_opts opts = {s->loop, s->zmq, s->sock, address, keys};
    return zap_auth_open(&s->auth, &opts, bound, e);
}

void transport_server_close(struct transport_server *s)
{
    if (!s)
        return;
    zap_auth_close(s->auth);
    zmq_uv_close(s->on_sock);
    if (s->sock)
        zmq_close(s->sock);
    if (s->zmq)
        zmq_ctx_term(s->zmq); /* waits until messages are sent, at most LINGER_MS */
    if (s->file)
        (void)unlink(s->file); /* ignored: a remaining file is harmless */
    free(s->file);
    peer_table_clear(&s->peers);
    free(s);
}
