#include "launcher/inspect/nccl_ras.h"

#include <stdbool.h>
#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"

enum {
    ANSWER_MS = 5000,
    ANSWER_BYTES_MAX = 64 << 10,
    WAYS_MAX = 4 /* addresses of a name that are tried: "localhost" has two, and one is served */
};

/* One after the other: each is sent when the line before was answered by one; what follows the last
 * is the status, to the end of file. */
static const char *const requests[] = {"CLIENT PROTOCOL 2\n", "TIMEOUT 4\n", "STATUS\n"};

struct nccl_ras {
    uv_tcp_t tcp[WAYS_MAX]; /* one for each address, tried in turn */
    struct sockaddr_storage to[WAYS_MAX];
    int ways, way;
    uv_timer_t timer;
    uv_getaddrinfo_t look_up;
    uv_connect_t connect;
    int open; /* handles and look-ups that still may call back */
    size_t next;
    bool closing;
    struct strbuf text;
    char buf[4096];
    void (*done)(void *arg, const char *text);
    void *arg;
};

static void let_go(struct nccl_ras *r)
{
    if (--r->open > 0)
        return;
    strbuf_free(&r->text);
    free(r);
}

static void on_closed(uv_handle_t *h)
{
    let_go(h->data);
}

void nccl_ras_free(struct nccl_ras *r)
{
    if (!r || r->closing)
        return;
    r->closing = true;
    (void)uv_cancel((uv_req_t *)&r->look_up); /* it may be over, or under way: it calls back then */
    for (int i = 0; i < WAYS_MAX; i++)
        uv_close((uv_handle_t *)&r->tcp[i], on_closed);
    uv_close((uv_handle_t *)&r->timer, on_closed);
}

static void finish(struct nccl_ras *r)
{
    void (*done)(void *, const char *) = TAKE(r->done);
    if (done && !r->closing)
        done(r->arg, strbuf_str(&r->text));
}

static void on_timer(uv_timer_t *t)
{
    finish(t->data);
}

/* So few bytes go at once: who does not take them answers nothing either. */
static void ask(struct nccl_ras *r)
{
    const char *text = requests[r->next++];
    uv_buf_t b = uv_buf_init((char *)text, (unsigned)strlen(text));
    if (uv_try_write((uv_stream_t *)&r->tcp[r->way], &b, 1) != (int)b.len)
        finish(r);
}

static void on_alloc(uv_handle_t *h, size_t wanted, uv_buf_t *b)
{
    struct nccl_ras *r = h->data;
    *b = uv_buf_init(r->buf, sizeof r->buf);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
    struct nccl_ras *r = s->data;
    for (ssize_t i = 0; i < n; i++) {
        if (r->next == COUNT_OF(requests))
            strbuf_putc(&r->text, b->base[i]);
        else if (b->base[i] == '\n')
            ask(r);
    }
    if (n < 0 || r->text.len > ANSWER_BYTES_MAX) {
        uv_read_stop(s);
        finish(r);
    }
}

static void on_connected(uv_connect_t *c, int status);

/* To the next address that can be tried. */
static void connect_on(struct nccl_ras *r)
{
    while (++r->way < r->ways)
        if (uv_tcp_connect(&r->connect, &r->tcp[r->way], (struct sockaddr *)&r->to[r->way],
                           on_connected) == 0)
            return;
    finish(r);
}

static void on_connected(uv_connect_t *c, int status)
{
    struct nccl_ras *r = c->data;
    if (status == UV_ECANCELED)
        return; /* it was closed */
    if (status < 0)
        connect_on(r);
    else if (uv_read_start((uv_stream_t *)&r->tcp[r->way], on_alloc, on_read) < 0)
        finish(r);
    else
        ask(r);
}

static void on_looked_up(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    struct nccl_ras *r = req->data;
    for (const struct addrinfo *a = found; a && r->ways < WAYS_MAX; a = a->ai_next)
        memcpy(&r->to[r->ways++], a->ai_addr, a->ai_addrlen);
    uv_freeaddrinfo(found);
    if (!r->closing)
        connect_on(r);
    let_go(r);
}

struct nccl_ras *nccl_ras_query(uv_loop_t *loop, const char *address,
                                void (*done)(void *arg, const char *text), void *arg)
{
    struct nccl_ras *r = xzalloc(sizeof *r);
    r->done = done;
    r->arg = arg;
    r->way = -1;
    r->open = WAYS_MAX + 2;
    for (int i = 0; i < WAYS_MAX; i++) {
        uv_tcp_init(loop, &r->tcp[i]);
        r->tcp[i].data = r;
    }
    uv_timer_init(loop, &r->timer);
    r->timer.data = r->look_up.data = r->connect.data = r;
    uv_timer_start(&r->timer, on_timer, ANSWER_MS, 0);
    AUTO(free) char *host = xstrdup(address);
    char *colon = strrchr(host, ':');
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
    if (colon)
        *colon = '\0';
    if (!colon || uv_getaddrinfo(loop, &r->look_up, on_looked_up, host, colon + 1, &hints) < 0) {
        r->open--; /* no such address: the timer says so */
        uv_timer_start(&r->timer, on_timer, 0, 0);
    }
    return r;
}
