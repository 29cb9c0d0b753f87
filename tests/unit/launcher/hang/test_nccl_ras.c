/* nccl_ras: a server that answers, one that sends more than requested, and none. */
#include "launcher/hang/nccl_ras.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "common/mem.h"
#include "tests/unit/test.h"

struct server {
    uv_tcp_t listener, peer;
    const char *greeting, *answer; /* at once; after the fourth line */
    int lines;
    uv_loop_t *loop;
    struct nccl_ras *ras;
    char said[256];
    bool done;
};

static void on_done(void *arg, const char *text)
{
    struct server *s = arg;
    snprintf(s->said, sizeof s->said, "%s", text);
    s->done = true;
    nccl_ras_free(s->ras);
}

static void say(struct server *s, const char *text)
{
    uv_buf_t b = uv_buf_init((char *)text, (unsigned)strlen(text));
    CHECK_INT(uv_try_write((uv_stream_t *)&s->peer, &b, 1), (int)b.len);
}

static void on_room(uv_handle_t *h, size_t wanted, uv_buf_t *b)
{
    static char bytes[256];
    *b = uv_buf_init(bytes, sizeof bytes);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *b)
{
    struct server *s = stream->data;
    for (ssize_t i = 0; i < n; i++)
        s->lines += b->base[i] == '\n';
    if (n > 0 && !*s->greeting && s->lines < 4)
        say(s, "OK\n");
    if (s->lines < 4 || uv_is_closing((uv_handle_t *)stream))
        return;
    say(s, s->answer);
    uv_close((uv_handle_t *)stream, NULL);
}

static void on_client(uv_stream_t *listener, int status)
{
    struct server *s = listener->data;
    CHECK_INT(uv_accept(listener, (uv_stream_t *)&s->peer), 0);
    if (*s->greeting)
        say(s, s->greeting);
    uv_read_start((uv_stream_t *)&s->peer, on_room, on_read);
}

/* Returns what nccl_ras_query() reports for a server that sends these texts. */
static void ask(struct server *s)
{
    uv_loop_t loop;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int len = sizeof at;
    uv_loop_init(&loop);
    uv_tcp_init(&loop, &s->listener);
    uv_tcp_init(&loop, &s->peer);
    s->listener.data = s->peer.data = s;
    CHECK_INT(uv_tcp_bind(&s->listener, (struct sockaddr *)&at, 0), 0);
    CHECK_INT(uv_listen((uv_stream_t *)&s->listener, 1, on_client), 0);
    uv_tcp_getsockname(&s->listener, (struct sockaddr *)&at, &len);
    AUTO(free) char *address = xasprintf("127.0.0.1:%d", ntohs(at.sin_port));
    s->ras = nccl_ras_query(&loop, address, on_done, s);
    while (!s->done)
        uv_run(&loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&s->listener, NULL);
    if (!uv_is_closing((uv_handle_t *)&s->peer))
        uv_close((uv_handle_t *)&s->peer, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&loop), 0);
}

TEST(each_line_is_answered_before_the_next_and_the_rest_is_the_status)
{
    struct server s = {.greeting = "", .answer = "all is well\n"};
    ask(&s);
    CHECK_STR(s.said, "all is well\n");
    CHECK_INT(s.lines, 4);
}

TEST(a_server_that_says_more_lines_than_it_was_asked_does_no_harm)
{
    struct server s = {.greeting = "\n\n\n\n", .answer = "well\n"};
    ask(&s);
    CHECK_STR(s.said, "\nwell\n");
}
