#include "launcher/hang/nccl_ras.h"

#include <stdbool.h>
#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"

enum {
    TIMEOUT_MS = 12000,          /* the service itself may need 10 s if processes do not answer */
    ANSWER_BYTES_MAX = 64 << 20, /* 1.7 MB for 1,000 ranks in three communicators each */
    /* Number of addresses that are tried: "localhost" has two, of which the server may use only one
     * */
    ADDRESSES_MAX = 4
};

/* The requests. A service before NCCL 2.28.7 answers the second one with an error and writes text.
 * Each one is sent after the server has answered the previous one with a line. The
 * answer to the last one is the status, which ends at end of file. */
static const char *const requests[] = {"CLIENT PROTOCOL 2\n", "SET FORMAT json\n", "TIMEOUT 10\n",
                                       "VERBOSE STATUS\n"};

struct nccl_ras {
    uv_tcp_t tcp[ADDRESSES_MAX]; /* one per address, tried in turn */
    struct sockaddr_storage addresses[ADDRESSES_MAX];
    int address_count, address;
    uv_timer_t timer;
    uv_getaddrinfo_t resolve;
    uv_connect_t connect;
    int open; /* number of handles and resolutions that may still call back */
    size_t next_request;
    bool closing;
    struct strbuf text;
    char buf[4096];
    void (*done)(void *arg, const char *text);
    void *arg;
};

static void release(struct nccl_ras *r)
{
    if (--r->open > 0)
        return;
    strbuf_free(&r->text);
    free(r);
}

static void on_closed(uv_handle_t *h)
{
    release(h->data);
}

void nccl_ras_free(struct nccl_ras *r)
{
    if (!r || r->closing)
        return;
    r->closing = true;
    /* This fails if the resolution is done or in progress. If it is in progress, it still calls
     * back. */
    (void)uv_cancel((uv_req_t *)&r->resolve);
    for (int i = 0; i < ADDRESSES_MAX; i++)
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

/* Sends the next request. The request is short, so a server that does not accept it immediately
 * would not answer either. */
static void send_request(struct nccl_ras *r)
{
    const char *text = requests[r->next_request++];
    uv_buf_t b = uv_buf_init((char *)text, (unsigned)strlen(text));
    if (uv_try_write((uv_stream_t *)&r->tcp[r->address], &b, 1) != (int)b.len)
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
        if (r->next_request == COUNT_OF(requests))
            strbuf_putc(&r->text, b->base[i]);
        else if (b->base[i] == '\n')
            send_request(r);
    }
    if (n < 0 || r->text.len > ANSWER_BYTES_MAX) {
        uv_read_stop(s);
        finish(r);
    }
}

static void on_connected(uv_connect_t *c, int status);

/* Starts to connect to the next address. */
static void connect_next(struct nccl_ras *r)
{
    while (++r->address < r->address_count)
        if (uv_tcp_connect(&r->connect, &r->tcp[r->address],
                           (struct sockaddr *)&r->addresses[r->address], on_connected) == 0)
            return;
    finish(r);
}

static void on_connected(uv_connect_t *c, int status)
{
    struct nccl_ras *r = c->data;
    if (status == UV_ECANCELED)
        return; /* closed */
    if (status < 0)
        connect_next(r);
    else if (uv_read_start((uv_stream_t *)&r->tcp[r->address], on_alloc, on_read) < 0)
        finish(r);
    else
        send_request(r);
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    struct nccl_ras *r = req->data;
    for (const struct addrinfo *a = found; a && r->address_count < ADDRESSES_MAX; a = a->ai_next)
        memcpy(&r->addresses[r->address_count++], a->ai_addr, a->ai_addrlen);
    uv_freeaddrinfo(found);
    if (!r->closing)
        connect_next(r);
    release(r);
}

struct nccl_ras *nccl_ras_query(uv_loop_t *loop, const char *address,
                                void (*done)(void *arg, const char *text), void *arg)
{
    struct nccl_ras *r = xzalloc(sizeof *r);
    r->done = done;
    r->arg = arg;
    r->address = -1;
    r->open = ADDRESSES_MAX + 2;
    for (int i = 0; i < ADDRESSES_MAX; i++) {
        uv_tcp_init(loop, &r->tcp[i]);
        r->tcp[i].data = r;
    }
    uv_timer_init(loop, &r->timer);
    r->timer.data = r->resolve.data = r->connect.data = r;
    uv_timer_start(&r->timer, on_timer, TIMEOUT_MS, 0);
    AUTO(free) char *host = xstrdup(address);
    char *colon = strrchr(host, ':');
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
    if (colon)
        *colon = '\0';
    if (!colon || uv_getaddrinfo(loop, &r->resolve, on_resolved, host, colon + 1, &hints) < 0) {
        r->open--; /* invalid address: the timer reports it */
        uv_timer_start(&r->timer, on_timer, 0, 0);
    }
    return r;
}
