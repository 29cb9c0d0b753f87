#include "serve/serve_http.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <zlib.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/tcp_peer.h"
#include "hpo/store/command_client.h"
#include "serve/serve_peers.h"

enum {
    TICK_MS = 500,     /* at most two events per second */
    BEAT_MS = 3000,    /* a stream without news gets a beat: the page sees that the server lives */
    SILENT_S = 30,     /* a connection without activity is closed */
    STALLED_MS = 5000, /* an answer that takes longer makes room for others */
    SPARE = 16,        /* connections that are closing */
    ACCEPT_MAX = 32,   /* per turn of the loop */
    UPLOAD_MAX = 64 << 10,
    PEER_MEMORY = 16 << 10, /* for the headers of a request */
    GZIP_MIN = 1024,
    GZIP_LEVEL = 1
};

struct stream { /* of events */
    struct serve_http *owner;
    struct MHD_Connection *connection;
    struct serve_peer *peer;
    char sweep[SERVE_ROUTE_NAME_MAX + 1];
    int64_t sent_seq, sent_ms;
    char *sent; /* the last event's data */
    struct strbuf pending;
    bool suspended, ended;
    struct stream *next;
};

struct exchange { /* one request and its answer */
    struct strbuf upload;
    bool too_large;
    struct serve_answer answer;
    bool commanding, commanded; /* a thread has the answer's command; it is done */
};

/* A viewer's command, in a separate thread: the coordinator may take seconds to reply. */
struct command {
    pthread_t thread;
    struct serve_http *owner;
    struct MHD_Connection *connection;
    struct exchange *exchange;
    char *root;
    struct command *next;
    atomic_bool done;
};

struct serve_http {
    const struct serve_context *context;
    struct MHD_Daemon *daemon;
    int listener, signals, wake; /* wake: a command is done */
    struct serve_peers peers;
    struct stream *streams;
    struct command *commands;
    int64_t tick_ms;
};

/* ---- making way ----------------------------------------------------------------------------- */

static void resume(struct stream *s)
{
    if (s->suspended) {
        s->suspended = false;
        MHD_resume_connection(s->connection);
    }
}

/* Ends a connection. libmicrohttpd frees it in the next turns. */
static void end_peer(struct serve_peer *peer)
{
    struct stream *s = peer->stream;
    peer->state = SERVE_PEER_CLOSING;
    (void)shutdown(peer->fd, SHUT_RDWR); /* fails if the client has closed it */
    if (s) {
        s->ended = true;
        resume(s);
    }
}

static void accept_peers(struct serve_http *h)
{
    for (int i = 0; i < ACCEPT_MAX; i++) {
        struct sockaddr_storage from;
        socklen_t len = sizeof from;
        int fd = accept4(h->listener, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        struct serve_peer *victim = serve_peers_count(&h->peers) >= SERVE_HTTP_PEERS_MAX
                                        ? serve_peers_victim(&h->peers)
                                        : NULL;
        if (victim) {
            end_peer(victim);
            MHD_run(h->daemon);
        }
        /* Closes the socket if it fails. */
        if (MHD_add_connection(h->daemon, fd, (struct sockaddr *)&from, len) != MHD_YES)
            log_debug("a connection was refused: too many are closing");
        MHD_run(h->daemon);
    }
}

static void on_peer(void *cls, struct MHD_Connection *c, void **socket_context,
                    enum MHD_ConnectionNotificationCode code)
{
    struct serve_http *h = cls;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *i =
            MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
        *socket_context = serve_peers_add(&h->peers, i->connect_fd, clock_ms());
    } else {
        serve_peers_remove(&h->peers, *socket_context);
        *socket_context = NULL;
    }
}

static struct serve_peer *peer_of(struct MHD_Connection *c)
{
    return MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void enter(struct serve_peer *peer, enum serve_peer_state state, size_t body)
{
    if (peer->state == SERVE_PEER_CLOSING)
        return;
    peer->state = state;
    peer->since_ms = clock_ms();
    peer->body = body;
}

/* ---- events --------------------------------------------------------------------------------- */

struct news { /* of a sweep, as the data of an event */
    const char *sweep;
    struct strbuf data;
    int64_t seq;
};

/* Adds an event if the sweep has changed since the last one. `n` has the news of the sweep that was
 * asked for last: most streams are of one sweep. */
static void add_event(struct stream *s, struct news *n, int64_t now)
{
    if (!n->sweep || strcmp(n->sweep, s->sweep) != 0) {
        strbuf_reset(&n->data);
        n->sweep = s->sweep;
        serve_api_event(&n->data, &n->seq, s->owner->context->sweeps, s->sweep);
    }
    if (!s->sent || strcmp(s->sent, strbuf_str(&n->data)) != 0) {
        strbuf_printf(&s->pending, "id: %lld\ndata: %s\n\n", (long long)n->seq,
                      strbuf_str(&n->data));
        free(s->sent);
        s->sent = xstrdup(strbuf_str(&n->data));
    } else if (now - s->sent_ms >= BEAT_MS) {
        strbuf_puts(&s->pending, "event: beat\ndata: 1\n\n");
    } else {
        return;
    }
    s->sent_ms = now;
}

static ssize_t read_stream(void *cls, uint64_t pos, char *buf, size_t max)
{
    struct stream *s = cls;
    size_t n = s->pending.len < max ? s->pending.len : max;
    if (s->ended)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (n == 0) {
        s->suspended = true;
        MHD_suspend_connection(s->connection);
        return 0;
    }
    memcpy(buf, s->pending.data, n);
    strbuf_consume(&s->pending, n);
    return (ssize_t)n;
}

static void free_stream(void *cls)
{
    struct stream *s = cls, **at = &s->owner->streams;
    while (*at && *at != s)
        at = &(*at)->next;
    if (*at)
        *at = s->next;
    s->peer->stream = NULL;
    strbuf_free(&s->pending);
    free(s->sent);
    free(s);
}

static struct MHD_Response *open_stream(struct serve_http *h, struct MHD_Connection *c,
                                        const struct serve_answer *a)
{
    struct stream *s = xzalloc(sizeof *s);
    *s = (struct stream){.owner = h, .connection = c, .peer = peer_of(c), .next = h->streams};
    memcpy(s->sweep, a->sweep, sizeof s->sweep);
    s->peer->stream = h->streams = s;
    struct news n = {0};
    strbuf_puts(&s->pending, "retry: 2000\n\n");
    add_event(s, &n, clock_ms());
    strbuf_free(&n.data);
    enter(s->peer, SERVE_PEER_STREAMING, 0);
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_stream, s, free_stream);
}

/* Whether the client has closed its connection, which libmicrohttpd does not notice while the
 * connection is suspended. */
static bool is_gone(const struct serve_peer *peer)
{
    char byte;
    ssize_t n = recv(peer->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static void send_events(struct serve_http *h, int64_t now)
{
    struct news n = {0};
    for (struct stream *s = h->streams; s; s = s->next) {
        if (!s->suspended)
            continue; /* it has not taken the last event yet */
        if (is_gone(s->peer)) {
            end_peer(s->peer);
            continue;
        }
        add_event(s, &n, now);
        if (s->pending.len > 0)
            resume(s);
    }
    strbuf_free(&n.data);
}

/* ---- commands ------------------------------------------------------------------------------- */

static void *run_command(void *arg)
{
    struct command *k = arg;
    struct serve_answer *a = &k->exchange->answer;
    AUTO(json) json_t *reply = NULL;
    bool applied_here = false;
    struct err e = {0};
    int rc = command_client_send(&reply, &applied_here, k->root, a->sweep, a->command, &e);
    if (rc == 0)
        serve_answer_json(a, json_pack("{s:O,s:b}", "reply", reply, "applied_here", applied_here));
    else
        serve_answer_error(a, rc == -ETIMEDOUT ? 504 : rc == -ENOENT ? 404 : 409, &e);
    const uint64_t one = 1;
    k->done = true;
    (void)!write(k->owner->wake, &one, sizeof one); /* the counter cannot overflow */
    return NULL;
}

static int start_command(struct serve_http *h, struct MHD_Connection *c, struct exchange *x,
                         struct err *e)
{
    struct command *k = xzalloc(sizeof *k);
    *k = (struct command){.owner = h, .connection = c, .exchange = x};
    k->root = xstrdup(serve_sweeps_root(h->context->sweeps));
    x->commanding = true;
    MHD_suspend_connection(c);
    int rc = pthread_create(&k->thread, NULL, run_command, k);
    if (rc != 0) {
        MHD_resume_connection(c);
        x->commanding = false;
        free(k->root);
        free(k);
        return err_set(e, -rc, "no thread for the command: %s", strerror(rc));
    }
    k->next = h->commands;
    h->commands = k;
    return 0;
}

/* Lets the connections of commands that are done continue. all: waits for all commands. */
static void finish_commands(struct serve_http *h, bool all)
{
    for (struct command **at = &h->commands; *at;) {
        struct command *k = *at;
        if (!k->done && !all) {
            at = &k->next;
            continue;
        }
        *at = k->next;
        pthread_join(k->thread, NULL);
        serve_sweeps_changed(h->context->sweeps, k->exchange->answer.sweep);
        k->exchange->commanding = false;
        k->exchange->commanded = true;
        MHD_resume_connection(k->connection);
        free(k->root);
        free(k);
    }
}

/* ---- answers -------------------------------------------------------------------------------- */

static const char *header(struct MHD_Connection *c, const char *name)
{
    return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static const char *query(void *arg, const char *name)
{
    return MHD_lookup_connection_value(arg, MHD_GET_ARGUMENT_KIND, name);
}

/* Compresses the body if the client accepts that; a client on this machine may be a tunnel's end.
 */
static bool compress_body(struct strbuf *body, struct MHD_Connection *c)
{
    const char *accepted = header(c, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    z_stream z = {0};
    if (!accepted || !strstr(accepted, "gzip") || body->len < GZIP_MIN)
        return false;
    if (deflateInit2(&z, GZIP_LEVEL, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    struct strbuf out = {0};
    strbuf_reserve(&out, deflateBound(&z, body->len));
    z.next_in = (unsigned char *)body->data;
    z.avail_in = (unsigned)body->len;
    z.next_out = (unsigned char *)out.data;
    z.avail_out = (unsigned)deflateBound(&z, body->len);
    bool ok = deflate(&z, Z_FINISH) == Z_STREAM_END;
    out.len = z.total_out;
    deflateEnd(&z);
    strbuf_free(ok ? body : &out);
    if (ok)
        *body = out;
    return ok;
}

static void add_headers(struct MHD_Response *r, const struct serve_answer *a)
{
    static const char *const always[][2] = {
        {"Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'; base-uri 'none'"},
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
    };
    for (size_t i = 0; i < COUNT_OF(always); i++)
        MHD_add_response_header(r, always[i][0], always[i][1]);
    bool file = a->kind == SERVE_ANSWER_FILE;
    MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, file ? "no-cache" : "no-store");
    MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE,
                            a->kind == SERVE_ANSWER_EVENTS ? "text/event-stream" : a->type);
    if (a->location)
        MHD_add_response_header(r, MHD_HTTP_HEADER_LOCATION, a->location);
    if (a->set_cookie)
        MHD_add_response_header(r, MHD_HTTP_HEADER_SET_COOKIE, a->set_cookie);
    if (a->log_size >= 0) {
        char size[24];
        snprintf(size, sizeof size, "%lld", (long long)a->log_size);
        MHD_add_response_header(r, "X-Log-Size", size);
    }
}

/* Ends connections whose answers have been under way for too long, if there is no memory for an
 * answer of `len` bytes. Returns false if there is none then. */
static bool make_room(struct serve_http *h, size_t len)
{
    int64_t now = clock_ms();
    while (serve_peers_bytes(&h->peers) + len > SERVE_HTTP_BODIES_MAX) {
        struct serve_peer *slowest = serve_peers_slowest(&h->peers);
        if (!slowest)
            return true; /* one answer is always possible */
        if (now - slowest->since_ms < STALLED_MS)
            return false;
        end_peer(slowest);
    }
    return true;
}

/* The page asks again. */
static void refuse_busy(struct serve_answer *a)
{
    struct err e = {0};
    err_set(&e, -EBUSY, "too many answers are under way");
    serve_answer_error(a, MHD_HTTP_SERVICE_UNAVAILABLE, &e);
}

static enum MHD_Result send_answer(struct serve_http *h, struct MHD_Connection *c,
                                   struct serve_answer *a)
{
    struct serve_peer *peer = peer_of(c);
    struct MHD_Response *r;
    bool compressed = false;
    if (a->kind == SERVE_ANSWER_EVENTS) {
        r = open_stream(h, c, a);
    } else if (a->kind == SERVE_ANSWER_FILE) {
        r = MHD_create_response_from_buffer(a->file->len, a->file->bytes, MHD_RESPMEM_PERSISTENT);
        enter(peer, SERVE_PEER_READING, 0);
    } else {
        compressed = compress_body(&a->body, c);
        if (!make_room(h, a->body.len))
            refuse_busy(a);
        size_t len = a->body.len;
        enter(peer, SERVE_PEER_READING, len);
        r = MHD_create_response_from_buffer(len, strbuf_take(&a->body), MHD_RESPMEM_MUST_FREE);
    }
    if (!r)
        return MHD_NO;
    add_headers(r, a);
    if (compressed)
        MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    enum MHD_Result ok = MHD_queue_response(c, (unsigned)a->status, r);
    MHD_destroy_response(r);
    return ok;
}

static void add_upload(struct exchange *x, const char *data, size_t size)
{
    x->too_large |= x->upload.len + size > UPLOAD_MAX;
    if (!x->too_large)
        strbuf_add(&x->upload, data, size);
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **con_cls)
{
    struct serve_http *h = cls;
    struct exchange *x = *con_cls;
    if (!x) {
        *con_cls = xzalloc(sizeof *x);
        return MHD_YES;
    }
    if (*size > 0) {
        add_upload(x, data, *size);
        *size = 0;
        return MHD_YES;
    }
    if (x->commanding)
        return MHD_YES;
    struct err e = {0};
    struct serve_answer *a = &x->answer;
    const struct serve_request r = {
        .method = method,
        .path = url,
        .host = header(c, MHD_HTTP_HEADER_HOST),
        .cookie = header(c, MHD_HTTP_HEADER_COOKIE),
        .origin = header(c, MHD_HTTP_HEADER_ORIGIN),
        .body = strbuf_str(&x->upload),
        .body_len = x->upload.len,
        .own = h->context->own_reads && tcp_peer_is_trusted(peer_of(c)->fd),
        .query = query,
        .arg = c,
    };
    if (!x->commanded)
        serve_api_answer(a, h->context, &r);
    if (x->too_large) {
        err_set(&e, -E2BIG, "the request is too large");
        serve_answer_error(a, 413, &e);
    } else if (a->kind == SERVE_ANSWER_COMMAND && !x->commanded) {
        if (start_command(h, c, x, &e) == 0)
            return MHD_YES;
        serve_answer_error(a, 503, &e);
    }
    return send_answer(h, c, a);
}

static void on_completed(void *cls, struct MHD_Connection *c, void **con_cls,
                         enum MHD_RequestTerminationCode code)
{
    struct exchange *x = *con_cls;
    if (peer_of(c))
        enter(peer_of(c), SERVE_PEER_IDLE, 0);
    if (x) {
        strbuf_free(&x->upload);
        serve_answer_free(&x->answer);
    }
    free(x);
    *con_cls = NULL;
}

static void on_log(void *arg, const char *fmt, va_list ap)
{
    AUTO(free) char *text = xvasprintf(fmt, ap);
    log_debug("libmicrohttpd: %s", text);
}

/* ---- the loop ------------------------------------------------------------------------------- */

int serve_http_open(struct serve_http **out, int listener, const struct serve_context *x,
                    struct err *e)
{
    AUTO(serve_http) struct serve_http *h = xzalloc(sizeof *h);
    *h = (struct serve_http){.context = x, .listener = listener, .signals = -1, .wake = -1};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    h->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    h->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->signals < 0 || h->wake < 0)
        return err_set(e, -errno, "signalfd: %s", strerror(errno));
    h->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG, 0,
        NULL, NULL, on_request, h, MHD_OPTION_EXTERNAL_LOGGER, on_log, h,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)(SERVE_HTTP_PEERS_MAX + SPARE),
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)PEER_MEMORY, MHD_OPTION_NOTIFY_CONNECTION, on_peer, h, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, h, MHD_OPTION_END);
    if (!h->daemon)
        return err_set(e, -EIO, "libmicrohttpd could not start");
    *out = TAKE(h);
    return 0;
}

static int wait_ms(struct serve_http *h)
{
    MHD_UNSIGNED_LONG_LONG limit = TICK_MS;
    int64_t left = h->streams ? h->tick_ms - clock_ms() : 10 * TICK_MS;
    if (MHD_get_timeout(h->daemon, &limit) == MHD_YES && (int64_t)limit < left)
        left = (int64_t)limit;
    return left > 0 ? (int)left : 0;
}

int serve_http_run(struct serve_http *h, bool until_eof, struct err *e)
{
    int epoll = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    for (;;) {
        struct pollfd p[] = {{h->signals, POLLIN, 0},
                             {h->listener, POLLIN, 0},
                             {epoll, POLLIN, 0},
                             {h->wake, POLLIN, 0},
                             {until_eof ? STDIN_FILENO : -1, POLLIN, 0}};
        if (poll(p, COUNT_OF(p), wait_ms(h)) < 0 && errno != EINTR)
            return err_set(e, -errno, "poll: %s", strerror(errno));
        if (p[0].revents || p[4].revents)
            return 0;
        if (p[1].revents)
            accept_peers(h);
        if (p[3].revents) {
            uint64_t n;
            (void)!read(h->wake, &n, sizeof n); /* only empties the counter */
            finish_commands(h, false);
        }
        int64_t now = clock_ms();
        if (now >= h->tick_ms) {
            h->tick_ms = now + TICK_MS;
            send_events(h, now);
        }
        MHD_run(h->daemon);
    }
}

void serve_http_close(struct serve_http *h)
{
    if (!h)
        return;
    finish_commands(h, true); /* each takes a few seconds at most */
    for (struct stream *s = h->streams; s; s = s->next) {
        s->ended = true;
        resume(s);
    }
    if (h->daemon) {
        MHD_run(h->daemon);
        MHD_stop_daemon(h->daemon);
    }
    const int fds[] = {h->listener, h->signals, h->wake};
    for (size_t i = 0; i < COUNT_OF(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(h);
}
