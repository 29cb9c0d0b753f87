#include "launcher/metrics/metrics_server.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "launcher/metrics/metrics_address.h"
#include "launcher/metrics/metrics_request.h"

enum {
    INTERVAL_MS = 1000,
    BACKLOG = 64,
    CLIENTS_MAX = 64,
    ACCEPT_MAX = 16,       /* in one turn of the loop */
    CLIENT_MS = 10000,     /* from the connection to the end of the answer */
    REST_BYTES = 64 << 10, /* what a client may send besides its request */
    LINGER_MS = 60000,     /* for metrics_server_linger(), if the pause is unknown … */
    LINGER_MAX_MS = 120000,
    LINGER_REST_MS = 2000 /* … and for the answers that are not written */
};

struct client {
    struct metrics_server *server;
    struct client *next; /* the next older one */
    uv_tcp_t tcp;
    uv_write_t write;
    uint64_t end_ms; /* in uv_now() */
    size_t received;
    char *answer; /* NULL: none yet */
    char request[METRICS_REQUEST_BYTES_MAX];
};

struct metrics_server {
    int fd; /* listens */
    uv_poll_t listener;
    uv_timer_t timer;
    int open_handles;       /* 0: not started */
    struct client *clients; /* the newest first */
    char *page;             /* what /metrics answers; NULL: nothing yet */
    struct metrics_text *text;
    void (*fill)(void *arg, struct metrics_text *t);
    void *arg;
    char *url;
    uint64_t scraped_ms, pause_ms; /* the last scrape, and from the one before; 0: none */
    uint64_t scrapes;
    uv_signal_t signals[2]; /* of metrics_server_linger() */
    bool interrupted;
};

/* ---- the page ------------------------------------------------------------------------------- */

static void renew_page(struct metrics_server *s)
{
    metrics_text_add(s->text, METRICS_BUILD_INFO, 1,
                     &(struct metrics_label){"version", DROVER_VERSION}, 1);
    s->fill(s->arg, s->text);
    free(s->page);
    s->page = metrics_text_take(s->text);
}

/* ---- connections ---------------------------------------------------------------------------- */

static void release(struct metrics_server *s)
{
    free(s->page);
    metrics_text_free(s->text);
    free(s->url);
    free(s);
}

static void on_closed(uv_handle_t *h)
{
    struct metrics_server *s = h->data;
    if (--s->open_handles == 0)
        release(s);
}

static void on_client_closed(uv_handle_t *h)
{
    struct client *c = h->data;
    h->data = c->server;
    on_closed(h);
    free(c->answer);
    free(c);
}

/* Ends a connection. Does nothing if it is ending. */
static void drop(struct client *c)
{
    struct client **at = &c->server->clients;
    while (*at && *at != c)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = c->next;
    uv_close((uv_handle_t *)&c->tcp, on_client_closed);
}

/* Ends connections that are too old or too many. */
static void drop_old(struct metrics_server *s)
{
    int n = 0;
    for (struct client *c = s->clients, *next; c; c = next) {
        next = c->next;
        if (++n > CLIENTS_MAX || uv_now(s->timer.loop) >= c->end_ms)
            drop(c);
    }
}

static void on_room(uv_handle_t *h, size_t suggested, uv_buf_t *out)
{
    struct client *c = h->data;
    size_t used = c->answer ? 0 : c->received; /* what comes after the answer is not kept */
    *out = uv_buf_init(c->request + used, (unsigned)(sizeof c->request - used));
}

/* Reads what the client still sends, to its end: if bytes were left, the kernel would reset the
 * connection, and the client could lose the answer. */
static void on_rest(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct client *c = stream->data;
    c->received += n > 0 ? (size_t)n : 0;
    if (n < 0 || c->received > REST_BYTES)
        drop(c);
}

static void on_written(uv_write_t *w, int status)
{
    struct client *c = w->data;
    uv_os_fd_t fd;
    if (status < 0 || uv_fileno((uv_handle_t *)&c->tcp, &fd) < 0 || shutdown(fd, SHUT_WR) < 0 ||
        uv_read_start((uv_stream_t *)&c->tcp, on_room, on_rest) < 0)
        drop(c);
}

static void note_scrape(struct metrics_server *s)
{
    uint64_t now_ms = uv_now(s->timer.loop);
    s->pause_ms = s->scrapes ? now_ms - s->scraped_ms : 0;
    s->scraped_ms = now_ms;
    s->scrapes++;
}

static void send_answer(struct client *c, const struct metrics_request *r)
{
    AUTO(strbuf) struct strbuf b = {0};
    if (!c->server->page)
        renew_page(c->server);
    const char *body = r->status == 200 ? c->server->page : r->text;
    if (r->status == 200)
        note_scrape(c->server);
    char date[64] = "";
    struct tm tm;
    time_t now = time(NULL);
    (void)strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
    strbuf_printf(&b,
                  "HTTP/1.1 %d %s\r\nDate: %s\r\nConnection: close\r\n%sContent-Length: %zu\r\n"
                  "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n\r\n%s",
                  r->status, r->reason, date, r->status == 405 ? "Allow: GET\r\n" : "",
                  strlen(body), r->head ? "" : body);
    uv_buf_t all = {.len = b.len};
    c->answer = all.base = strbuf_take(&b);
    c->write.data = c;
    uv_read_stop((uv_stream_t *)&c->tcp);
    if (uv_write(&c->write, (uv_stream_t *)&c->tcp, &all, 1, on_written) < 0)
        drop(c);
}

static void on_request(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct client *c = stream->data;
    if (n < 0) {
        drop(c);
        return;
    }
    c->received += (size_t)n;
    struct metrics_request r = metrics_request_read(c->request, c->received);
    if (r.status)
        send_answer(c, &r);
}

static void add_client(struct metrics_server *s, int fd)
{
    struct client *c = xzalloc(sizeof *c);
    c->server = s;
    c->end_ms = uv_now(s->timer.loop) + CLIENT_MS;
    c->tcp.data = c;
    c->next = s->clients;
    s->clients = c;
    s->open_handles++;
    uv_tcp_init(s->timer.loop, &c->tcp);
    (void)uv_tcp_open(&c->tcp, fd); /* does not fail for a socket of TCP */
    if (uv_read_start((uv_stream_t *)&c->tcp, on_room, on_request) < 0)
        drop(c);
    drop_old(s);
}

/* Accepts some connections, so that a stranger who opens one after another does not keep the loop
 * from other work. If there are no descriptors, the timer tries again. */
static void on_connections(uv_poll_t *poll, int status, int events)
{
    struct metrics_server *s = poll->data;
    for (int i = 0; i < ACCEPT_MAX; i++) {
        int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE)
                uv_poll_stop(poll);
            return;
        }
        add_client(s, fd);
    }
}

static void on_timer(uv_timer_t *t)
{
    struct metrics_server *s = t->data;
    renew_page(s);
    drop_old(s);
    uv_poll_start(&s->listener, UV_READABLE, on_connections);
}

/* ---- open and close ------------------------------------------------------------------------- */

int metrics_server_open(struct metrics_server **out, const char *address, struct err *e)
{
    struct listen_address a;
    if (metrics_address_parse(&a, address, e) < 0)
        return err_wrap(e, "--metrics");
    AUTO(fd) int fd = listen_open(&a, LISTEN_REUSE, BACKLOG);
    if (fd < 0) {
        err_set(e, fd, "--metrics: %s: %s", address, strerror(-fd));
        return fd == -EADDRINUSE ? err_hint(e, "another port, or 0 for a free one") : fd;
    }
    struct metrics_server *s = xzalloc(sizeof *s);
    AUTO(strbuf) struct strbuf url = {0};
    metrics_address_url(&url, &a);
    s->url = strbuf_take(&url);
    s->text = metrics_text_new();
    s->fd = fd_take(&fd);
    *out = s;
    return 0;
}

void metrics_server_start(struct metrics_server *s, uv_loop_t *loop,
                          void (*fill)(void *arg, struct metrics_text *t), void *arg)
{
    signal(SIGPIPE, SIG_IGN); /* a client may close its end at any time */
    s->fill = fill;
    s->arg = arg;
    s->open_handles = 2;
    uv_timer_init(loop, &s->timer);
    (void)uv_poll_init(loop, &s->listener, s->fd); /* does not fail for a socket */
    s->timer.data = s->listener.data = s;
    uv_timer_start(&s->timer, on_timer, 0, INTERVAL_MS);
}

/* ---- after the job -------------------------------------------------------------------------- */

static void on_interrupt(uv_signal_t *h, int sig)
{
    ((struct metrics_server *)h->data)->interrupted = true;
}

static void watch_interrupts(struct metrics_server *s)
{
    static const int numbers[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        uv_signal_init(s->timer.loop, &s->signals[i]);
        s->signals[i].data = s;
        s->open_handles++;
        uv_signal_start(&s->signals[i], on_interrupt, numbers[i]);
    }
}

static bool is_before(const struct metrics_server *s, uint64_t end_ms)
{
    return !s->interrupted && uv_now(s->timer.loop) < end_ms;
}

/* The timer ends each turn of the loop within a second. */
void metrics_server_linger(struct metrics_server *s, void (*waits)(void *arg, int limit_s))
{
    uint64_t before = s->scrapes, limit_ms = s->pause_ms ? 2 * s->pause_ms : LINGER_MS;
    limit_ms = limit_ms < INTERVAL_MS ? INTERVAL_MS : limit_ms;
    limit_ms = limit_ms > LINGER_MAX_MS ? LINGER_MAX_MS : limit_ms;
    if (before == 0)
        return;
    if (waits)
        waits(s->arg, (int)(limit_ms / 1000));
    renew_page(s);
    watch_interrupts(s);
    uv_update_time(s->timer.loop);
    uint64_t end_ms = uv_now(s->timer.loop) + limit_ms;
    while (s->scrapes == before && is_before(s, end_ms))
        uv_run(s->timer.loop, UV_RUN_ONCE);
    end_ms = uv_now(s->timer.loop) + LINGER_REST_MS;
    while (s->clients && is_before(s, end_ms))
        uv_run(s->timer.loop, UV_RUN_ONCE);
    for (size_t i = 0; i < COUNT_OF(s->signals); i++)
        uv_close((uv_handle_t *)&s->signals[i], on_closed);
}

const char *metrics_server_url(const struct metrics_server *s)
{
    return s->url;
}

void metrics_server_close(struct metrics_server *s)
{
    if (!s)
        return;
    if (s->open_handles) {
        while (s->clients)
            drop(s->clients);
        uv_close((uv_handle_t *)&s->listener, on_closed);
        uv_close((uv_handle_t *)&s->timer, on_closed);
    }
    close(s->fd);
    if (!s->open_handles)
        release(s);
}
