/* tcp_quickack: the kernel delays the acknowledgements of a TCP connection that answers, until the
 * option is set again. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "launcher/pmi/tcp_quickack.h"
#include "tests/unit/test.h"

static int make_pair(int *client)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    AUTO(fd) int listener = socket(AF_INET, SOCK_STREAM, 0);
    *client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK_INT(bind(listener, (struct sockaddr *)&at, len), 0);
    CHECK_INT(listen(listener, 1), 0);
    CHECK_INT(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    CHECK_INT(connect(*client, (struct sockaddr *)&at, len), 0);
    return accept(listener, NULL, NULL);
}

static int is_quick(int fd)
{
    int value = -1;
    socklen_t len = sizeof value;
    CHECK_INT(getsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &value, &len), 0);
    return value;
}

/* Requests and answers, until the kernel treats the connection as interactive. */
static void converse(int server, int client)
{
    char c = 'x';
    for (int i = 0; i < 1000 && is_quick(server); i++) {
        CHECK_INT(write(client, &c, 1), 1);
        CHECK_INT(read(server, &c, 1), 1);
        CHECK_INT(write(server, &c, 1), 1);
        CHECK_INT(read(client, &c, 1), 1);
    }
    CHECK_INT(is_quick(server), 0);
}

static void on_closed(uv_handle_t *h)
{
    tcp_quickack_free((struct tcp_quickack *)h);
}

/* Runs the loop until all connections are quick, for ten seconds at most. */
struct check {
    const int *fds;
    int n, checks;
    bool all;
};

static void on_check(uv_timer_t *t)
{
    struct check *l = t->data;
    l->all = true;
    for (int i = 0; i < l->n; i++)
        l->all = l->all && is_quick(l->fds[i]);
    if (l->all || ++l->checks == 1000)
        uv_timer_stop(t);
}

static bool all_become_quick(uv_loop_t *loop, const int *fds, int n)
{
    uv_timer_t timer;
    struct check l = {fds, n, 0, false};
    uv_timer_init(loop, &timer);
    timer.data = &l;
    uv_timer_start(&timer, on_check, 1, 10);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    return l.all;
}

TEST(the_option_is_set_again_also_for_later_connections)
{
    uv_loop_t loop;
    struct tcp_quickack q;
    int clients[2], servers[2];
    uv_loop_init(&loop);
    tcp_quickack_init(&q, &loop);
    servers[0] = make_pair(&clients[0]);
    converse(servers[0], clients[0]);
    tcp_quickack_rearm(&q);
    CHECK(all_become_quick(&loop, servers, 1));
    servers[1] = make_pair(&clients[1]);
    converse(servers[1], clients[1]);
    tcp_quickack_rearm(&q);
    CHECK(all_become_quick(&loop, servers, 2));
    uv_close((uv_handle_t *)&q.timer, on_closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&loop), 0);
    for (int i = 0; i < 2; i++) {
        close(clients[i]);
        close(servers[i]);
    }
}

TEST(its_timer_does_not_keep_the_loop_alive_and_stops)
{
    uv_loop_t loop;
    struct tcp_quickack q;
    uv_loop_init(&loop);
    tcp_quickack_init(&q, &loop);
    tcp_quickack_rearm(&q);
    CHECK_INT(uv_run(&loop, UV_RUN_DEFAULT), 0); /* at once */
    CHECK(uv_is_active((uv_handle_t *)&q.timer));
    q.left = 1;
    uv_ref((uv_handle_t *)&q.timer);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(!uv_is_active((uv_handle_t *)&q.timer));
    uv_close((uv_handle_t *)&q.timer, on_closed);
    uv_run(&loop, UV_RUN_DEFAULT);
    CHECK_INT(uv_loop_close(&loop), 0);
}
