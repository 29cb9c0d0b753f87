#include "launcher/remote/control/control.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>

enum {
    READ_BYTES = 64 << 10,
    ANSWER_MS = 2000 /* Linux may leave a second probe within 0.5 s unanswered */
};

/* A bulk frame that is not sent yet. */
struct bulk {
    struct bulk *next;
    struct strbuf bytes; /* not sealed, since other frames may go first */
};

/* The phases follow one another; some may be left out. */
enum phase { GREETING, AUTHENTICATED, ENDED, CLOSED };

struct control {
    uv_tcp_t tcp;
    uv_timer_t tick;
    int open_handles;
    struct control_cipher *cipher; /* NULL: none */
    struct strbuf sealed;          /* received, and not opened yet */
    struct strbuf early;           /* frames that wait for the peer's greeting */
    struct strbuf in;
    struct bulk *bulk, **bulk_end;
    enum phase phase;
    bool silence_expected; /* control_suspend_timeout() */
    bool frozen_tolerated; /* control_tolerate_frozen() */
    int silent_ms;
    uint64_t received_at, sent_at, ticked_at; /* uv_now() of the last frame or tick */
    struct control_events ev;
    void *arg;
};

/* ---- end ------------------------------------------------------------------------------------ */

static struct bulk *take_bulk(struct control *c)
{
    struct bulk *b = c->bulk;
    c->bulk = b->next;
    if (!c->bulk)
        c->bulk_end = &c->bulk;
    return b;
}

static void free_bulk(struct bulk *b)
{
    strbuf_free(&b->bytes);
    free(b);
}

static void on_closed(uv_handle_t *h)
{
    struct control *c = h->data;
    if (--c->open_handles > 0)
        return;
    control_cipher_free(c->cipher);
    strbuf_free(&c->sealed);
    strbuf_free(&c->early);
    strbuf_free(&c->in);
    while (c->bulk)
        free_bulk(take_bulk(c));
    free(c);
}

void control_close(struct control *c)
{
    if (!c || c->phase == CLOSED)
        return;
    c->phase = CLOSED;
    uv_close((uv_handle_t *)&c->tcp, on_closed);
    uv_close((uv_handle_t *)&c->tick, on_closed);
}

static void end(struct control *c, const char *why)
{
    if (c->phase >= ENDED)
        return;
    c->phase = ENDED;
    uv_read_stop((uv_stream_t *)&c->tcp);
    uv_timer_stop(&c->tick);
    c->ev.ended(c->arg, why);
}

/* ---- receiving ------------------------------------------------------------------------------ */

static size_t frame_max(const struct control *c)
{
    return c->phase == AUTHENTICATED ? CONTROL_FRAME_MAX : CONTROL_HELLO_BYTES;
}

/* Emits the complete frames. */
static void emit_frames(struct control *c)
{
    size_t used = 0;
    while (c->phase < ENDED) {
        struct control_frame f;
        struct err e = {0};
        ssize_t n =
            control_frame_decode(&f, strbuf_str(&c->in) + used, c->in.len - used, frame_max(c), &e);
        if (n < 0)
            end(c, e.text);
        if (n <= 0)
            break;
        used += (size_t)n;
        c->received_at = uv_now(c->tcp.loop);
        c->silence_expected = false;
        if (strcmp(f.type, "ping") != 0)
            c->ev.frame(c->arg, &f);
        json_decref(f.head);
    }
    strbuf_consume(&c->in, used);
}

static void write_bytes(struct control *c, const char *bytes, size_t len);

/* Takes the peer's greeting, and sends the frames that waited for it. Returns the bytes used. */
static ssize_t read_greeting(struct control *c, struct err *e)
{
    if (c->sealed.len < CONTROL_CIPHER_GREETING)
        return 0;
    int rc = control_cipher_greeted(c->cipher, c->sealed.data, e);
    if (rc < 0)
        return rc;
    AUTO(strbuf) struct strbuf early = c->early, b = {0};
    c->early = (struct strbuf){0};
    if (early.len > 0) {
        control_cipher_seal(c->cipher, &b, early.data, early.len);
        write_bytes(c, b.data, b.len);
    }
    return CONTROL_CIPHER_GREETING;
}

/* Opens the complete records and emits their frames. A record of frames that waited may have
 * several. */
static void open_records(struct control *c)
{
    size_t used = 0;
    while (c->phase < ENDED) {
        struct err e = {0};
        ssize_t n = control_cipher_is_ready(c->cipher)
                        ? control_cipher_open(c->cipher, &c->in, strbuf_str(&c->sealed) + used,
                                              c->sealed.len - used, frame_max(c), &e)
                        : read_greeting(c, &e);
        if (n < 0)
            end(c, e.text);
        if (n <= 0)
            break;
        used += (size_t)n;
        emit_frames(c);
    }
    strbuf_consume(&c->sealed, used);
}

static void on_buffer(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
    static char scratch[READ_BYTES]; /* shared: on_read() copies it before the next read */
    *buf = uv_buf_init(scratch, sizeof scratch);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
    struct control *c = s->data;
    if (n > 0) {
        strbuf_add(c->cipher ? &c->sealed : &c->in, buf->base, (size_t)n);
        if (c->cipher)
            open_records(c);
        else
            emit_frames(c);
    } else if (n < 0) {
        char why[128];
        snprintf(why, sizeof why, "the connection was %s", n == UV_EOF ? "closed" : "lost: ");
        if (n != UV_EOF)
            snprintf(why + strlen(why), sizeof why - strlen(why), "%s", uv_strerror((int)n));
        end(c, why);
    }
}

/* ---- sending -------------------------------------------------------------------------------- */

struct outgoing {
    uv_write_t req;
    struct strbuf bytes;
};

static void send_next_bulk(struct control *c);

static void on_written(uv_write_t *req, int status)
{
    struct outgoing *o = (struct outgoing *)req; /* on_read() reports a failure */
    struct control *c = req->handle->data;
    strbuf_free(&o->bytes);
    free(o);
    if (status == 0)
        send_next_bulk(c);
}

static void write_bytes(struct control *c, const char *bytes, size_t len)
{
    uv_buf_t buf = uv_buf_init((char *)bytes, (unsigned)len);
    int n = uv_try_write((uv_stream_t *)&c->tcp, &buf, 1);
    if (n == (int)len || (n < 0 && n != UV_EAGAIN))
        return;
    struct outgoing *o = xzalloc(sizeof *o);
    strbuf_add(&o->bytes, bytes + (n > 0 ? n : 0), len - (size_t)(n > 0 ? n : 0));
    buf = uv_buf_init(o->bytes.data, (unsigned)o->bytes.len);
    if (uv_write(&o->req, (uv_stream_t *)&c->tcp, &buf, 1, on_written) < 0) {
        strbuf_free(&o->bytes);
        free(o);
    }
}

/* Returns true if bytes of this connection wait for the kernel. */
static bool is_full(const struct control *c)
{
    return uv_stream_get_write_queue_size((const uv_stream_t *)&c->tcp) > 0;
}

/* Sends an encoded frame. */
static void send_frame(struct control *c, const struct strbuf *b)
{
    c->sent_at = uv_now(c->tcp.loop);
    if (!c->cipher) {
        write_bytes(c, b->data, b->len);
    } else if (!control_cipher_is_ready(c->cipher)) {
        strbuf_add(&c->early, b->data, b->len);
    } else {
        AUTO(strbuf) struct strbuf sealed = {0};
        control_cipher_seal(c->cipher, &sealed, b->data, b->len);
        write_bytes(c, sealed.data, sealed.len);
    }
}

static void send_next_bulk(struct control *c)
{
    while (c->bulk && c->phase < ENDED && !is_full(c)) {
        struct bulk *b = take_bulk(c);
        send_frame(c, &b->bytes);
        free_bulk(b);
    }
}

/* Encodes a frame. Returns false if it cannot be sent. Drops `head`. */
static bool encode(struct strbuf *b, const struct control *c, json_t *head, const void *payload,
                   size_t len)
{
    int rc = control_frame_encode(b, head, payload, len);
    json_decref(head);
    assert(rc == 0);
    return rc == 0 && c->phase < ENDED;
}

void control_send(struct control *c, json_t *head, const void *payload, size_t len)
{
    AUTO(strbuf) struct strbuf b = {0};
    if (encode(&b, c, head, payload, len))
        send_frame(c, &b);
}

void control_send_bulk(struct control *c, json_t *head, const void *payload, size_t len)
{
    AUTO(strbuf) struct strbuf b = {0};
    if (!encode(&b, c, head, payload, len))
        return;
    if (!c->bulk && !is_full(c)) {
        send_frame(c, &b);
        return;
    }
    struct bulk *waits = xzalloc(sizeof *waits);
    waits->bytes = b;
    b = (struct strbuf){0};
    *c->bulk_end = waits;
    c->bulk_end = &waits->next;
}

size_t control_window(int ranks)
{
    size_t share = CONTROL_WINDOWS / (size_t)(ranks > 0 ? ranks : 1);
    return share > CONTROL_WINDOW       ? CONTROL_WINDOW
           : share < CONTROL_WINDOW_MIN ? CONTROL_WINDOW_MIN
                                        : share;
}

/* ---- silence -------------------------------------------------------------------------------- */

/* Returns true if the peer's kernel answers (tcp(7), TCP_INFO), as it does for a frozen process. It
 * acknowledges each ping. When its buffer is full, it answers the probes of the window. The kernel
 * sends these up to 2 minutes apart, so one that is answered proves nothing for longer. */
static bool machine_answers(const struct control *c)
{
    struct tcp_info i;
    socklen_t len = sizeof i;
    uv_os_fd_t fd;
    if (uv_fileno((const uv_handle_t *)&c->tcp, &fd) < 0 ||
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len) < 0)
        return false;
    int64_t answered_ms = i.tcpi_last_ack_recv;
    return answered_ms < c->silent_ms || answered_ms < ANSWER_MS ||
           (i.tcpi_unacked == 0 && i.tcpi_probes == 0);
}

static bool is_lost(const struct control *c, uint64_t now)
{
    return !c->silence_expected && now - c->received_at >= (uint64_t)c->silent_ms &&
           !(c->frozen_tolerated && machine_answers(c));
}

static void on_tick(uv_timer_t *t)
{
    struct control *c = t->data;
    uint64_t now = uv_now(t->loop), silent = (uint64_t)c->silent_ms;
    /* If this process did not run for a while (^Z, a suspended machine), the peer may have sent
     * frames that are read after this timer: the time starts again. */
    if (now - c->ticked_at > silent / 2)
        c->received_at = now;
    c->ticked_at = now;
    if (is_lost(c, now)) {
        char why[64];
        snprintf(why, sizeof why, "silent for %g s", c->silent_ms / 1000.0);
        end(c, why);
    } else if (c->phase == AUTHENTICATED && now - c->sent_at >= silent / 3) {
        control_send(c, json_pack("{s:s}", "t", "ping"), NULL, 0);
    }
}

static void start_ticking(struct control *c, int silent_ms)
{
    uint64_t interval = (uint64_t)silent_ms / 15;
    c->silent_ms = silent_ms;
    c->received_at = c->sent_at = c->ticked_at = uv_now(c->tcp.loop);
    uv_timer_start(&c->tick, on_tick, interval, interval ? interval : 1);
}

void control_authenticate(struct control *c, int silent_ms)
{
    c->phase = c->phase == GREETING ? AUTHENTICATED : c->phase;
    start_ticking(c, silent_ms);
}

bool control_is_silent(const struct control *c)
{
    return uv_now(c->tcp.loop) - c->received_at >= (uint64_t)c->silent_ms / 2;
}

void control_tolerate_frozen(struct control *c)
{
    c->frozen_tolerated = true;
}

void control_suspend_timeout(struct control *c)
{
    c->silence_expected = true;
}

/* ---- start ---------------------------------------------------------------------------------- */

static struct control *new_control(uv_loop_t *loop, const struct control_events *ev, void *arg)
{
    struct control *c = xzalloc(sizeof *c);
    uv_tcp_init(loop, &c->tcp);
    uv_timer_init(loop, &c->tick);
    c->tcp.data = c->tick.data = c;
    c->open_handles = 2;
    c->bulk_end = &c->bulk;
    c->ev = *ev;
    c->arg = arg;
    return c;
}

/* Lets the kernel take few bytes at a time, so that frames overtake bulk frames. The bytes that are
 * on their way are not limited. */
static void limit_unsent(struct control *c)
{
    int bytes = CONTROL_UNSENT;
    uv_os_fd_t fd;
    if (uv_fileno((uv_handle_t *)&c->tcp, &fd) == 0)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

static int start_reading(struct control **out, struct control *c, const char *token, int rc,
                         struct err *e)
{
    if (rc == 0)
        rc = uv_read_start((uv_stream_t *)&c->tcp, on_buffer, on_read);
    if (rc < 0) {
        control_close(c);
        return err_set(e, rc, "control connection: %s", uv_strerror(rc));
    }
    (void)uv_tcp_nodelay(&c->tcp, 1); /* it works without, more slowly */
    limit_unsent(c);
    start_ticking(c, CONTROL_HELLO_MS);
    c->cipher = token ? control_cipher_new(token) : NULL;
    if (c->cipher)
        write_bytes(c, control_cipher_greeting(c->cipher), CONTROL_CIPHER_GREETING);
    *out = c;
    return 0;
}

int control_open(struct control **out, uv_loop_t *loop, int fd, const char *token,
                 const struct control_events *ev, void *arg, struct err *e)
{
    struct control *c = new_control(loop, ev, arg);
    int rc = uv_tcp_open(&c->tcp, fd);
    if (rc < 0)
        close(fd);
    return start_reading(out, c, token, rc, e);
}

int control_accept(struct control **out, uv_stream_t *listener, const char *token,
                   const struct control_events *ev, void *arg, struct err *e)
{
    struct control *c = new_control(listener->loop, ev, arg);
    return start_reading(out, c, token, uv_accept(listener, (uv_stream_t *)&c->tcp), e);
}

/* ---- addresses ------------------------------------------------------------------------------ */

static void format_address(char *out, size_t size, const struct sockaddr_storage *a)
{
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)a;
    out[0] = '\0';
    if (a->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        inet_ntop(AF_INET, six->sin6_addr.s6_addr + 12, out, (socklen_t)size);
    else if (a->ss_family == AF_INET6)
        inet_ntop(AF_INET6, &six->sin6_addr, out, (socklen_t)size);
    else
        inet_ntop(AF_INET, &((const struct sockaddr_in *)a)->sin_addr, out, (socklen_t)size);
}

int control_endpoints(struct control_endpoints *out, const struct control *c)
{
    struct sockaddr_storage a;
    int len = sizeof a;
    int rc = uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&a, &len);
    if (rc < 0)
        return rc;
    format_address(out->peer, sizeof out->peer, &a);
    len = sizeof a;
    rc = uv_tcp_getsockname(&c->tcp, (struct sockaddr *)&a, &len);
    if (rc < 0)
        return rc;
    format_address(out->own, sizeof out->own, &a);
    out->same_host = strcmp(out->peer, out->own) == 0;
    return 0;
}

bool control_same_token(const char *a, const char *b)
{
    size_t len = strlen(a);
    return strlen(b) == len && sodium_memcmp(a, b, len) == 0;
}
