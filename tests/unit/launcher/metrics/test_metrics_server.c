/* test_metrics_server - /metrics over TCP: the test's own clients never block, and the test runs
 * the loop between their steps. */
#include "launcher/metrics/metrics_server.h"

#include <fcntl.h>

#include "common/clock.h"
#include "common/listen.h"
#include "common/strbuf.h"
#include "tests/unit/test.h"

enum { LIMIT_MS = 30000, MANY = 64 };

struct place {
    uv_loop_t loop;
    struct metrics_server *server;
    int port;
    int fills;
    size_t fill_bytes; /* size of a label; 0: no label */
};

static void fill(void *arg, struct metrics_text *t)
{
    struct place *p = arg;
    AUTO(free) char *large = xzalloc(p->fill_bytes + 1);
    memset(large, 'x', p->fill_bytes);
    struct metrics_label label = {"program", large};
    metrics_text_add(t, METRICS_JOB_INFO, ++p->fills, &label, 1);
}

static void start(struct place *p, size_t fill_bytes)
{
    struct err e = {0};
    *p = (struct place){.fill_bytes = fill_bytes};
    CHECK_INT(uv_loop_init(&p->loop), 0);
    CHECK_INT(metrics_server_open(&p->server, "0", &e), 0);
    CHECK_INT(sscanf(metrics_server_url(p->server), "http://127.0.0.1:%d/metrics", &p->port), 1);
    metrics_server_start(p->server, &p->loop, fill, p);
}

/* Afterwards no handle is left. */
static void stop(struct place *p)
{
    metrics_server_close(p->server);
    CHECK_INT(uv_run(&p->loop, UV_RUN_DEFAULT), 0);
    CHECK_INT(uv_loop_close(&p->loop), 0);
}

static int connect_to(const struct place *p)
{
    struct listen_address a;
    CHECK_INT(listen_address_read(&a, "localhost", p->port), 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, &a.at.any, a.size) == 0);
    CHECK_INT(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static void send_text(int fd, const char *text)
{
    CHECK_INT(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Runs the loop until the server closes the connection. Returns what it has sent. */
static char *read_all(struct place *p, int fd)
{
    AUTO(strbuf) struct strbuf b = {0};
    char block[65536];
    for (int64_t end = clock_ms() + LIMIT_MS; clock_ms() < end;) {
        uv_run(&p->loop, UV_RUN_NOWAIT);
        ssize_t n = recv(fd, block, sizeof block, 0);
        if (n > 0)
            strbuf_add(&b, block, (size_t)n);
        else if (n == 0)
            return strbuf_take(&b);
        else
            CHECK_INT(errno, EAGAIN);
    }
    FAIL("the connection stays open");
}

static char *ask(struct place *p, const char *request)
{
    AUTO(fd) int fd = connect_to(p);
    send_text(fd, request);
    return read_all(p, fd);
}

static void run_for(struct place *p, int ms)
{
    for (int64_t end = clock_ms() + ms; clock_ms() < end; usleep(1000))
        uv_run(&p->loop, UV_RUN_NOWAIT);
}

/* Returns true if the server has closed or reset the connection. */
static bool is_closed(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_PEEK);
    return n == 0 || (n < 0 && errno != EAGAIN);
}

TEST(the_page_has_its_length_and_its_type_and_is_renewed)
{
    struct place p;
    start(&p, 3);
    AUTO(free) char *first = ask(&p, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    CHECK_HAS(first, "HTTP/1.1 200 OK\r\n");
    CHECK_HAS(first, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
    CHECK_HAS(first, "\r\nConnection: close\r\n");
    CHECK_HAS(first, "GMT\r\n");
    CHECK_HAS(first, "\ndrover_job_info{program=\"xxx\"} 1\n");
    const char *body = strstr(first, "\r\n\r\n") + 4;
    AUTO(free) char *length = xasprintf("\r\nContent-Length: %zu\r\n", strlen(body));
    CHECK_HAS(first, length);
    while (p.fills < 2)
        run_for(&p, 10);
    AUTO(free) char *second = ask(&p, "GET /metrics HTTP/1.0\r\n\r\n");
    CHECK_HAS(second, "HTTP/1.1 200 OK\r\n");
    CHECK_HAS(second, "\ndrover_job_info{program=\"xxx\"} 2\n");
    stop(&p);
}

TEST(other_requests_have_an_error_with_the_way_out)
{
    struct place p;
    start(&p, 0);
    AUTO(free) char *missing = ask(&p, "GET / HTTP/1.1\r\n\r\n");
    CHECK_HAS(missing, "HTTP/1.1 404 Not Found\r\n");
    CHECK_HAS(missing, "\r\n\r\ndrover: not found; try: /metrics\n");
    AUTO(free) char *post = ask(&p, "POST /metrics HTTP/1.1\r\nContent-Length: 1\r\n\r\nx");
    CHECK_HAS(post, "HTTP/1.1 405 Method Not Allowed\r\n");
    CHECK_HAS(post, "\r\nAllow: GET\r\n");
    AUTO(free) char *head = ask(&p, "HEAD /metrics HTTP/1.1\r\n\r\n");
    CHECK_HAS(head, "HTTP/1.1 405 ");
    CHECK_STR(strstr(head, "\r\n\r\n"), "\r\n\r\n");
    static char many[60000];
    memset(many, 'y', sizeof many - 1);
    memcpy(many, "GET /metrics HTTP/1.1\r\nX: ", 26);
    AUTO(free) char *refused = ask(&p, many); /* more than is read: the answer still arrives */
    CHECK_HAS(refused, "HTTP/1.1 431 ");
    stop(&p);
}

TEST(a_request_may_come_byte_by_byte_and_its_client_may_have_closed_its_end)
{
    static const char text[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    struct place p;
    start(&p, 1 << 20);
    AUTO(fd) int fd = connect_to(&p);
    for (size_t i = 0; i < sizeof text - 1; i++) {
        CHECK_INT(send(fd, text + i, 1, MSG_NOSIGNAL), 1);
        uv_run(&p.loop, UV_RUN_NOWAIT);
    }
    CHECK_INT(shutdown(fd, SHUT_WR), 0);
    AUTO(free) char *answer = read_all(&p, fd);
    CHECK_HAS(answer, "HTTP/1.1 200 OK\r\n");
    CHECK(strlen(answer) > 1 << 20);
    stop(&p);
}

TEST(unfinished_requests_make_way_for_a_new_one)
{
    struct place p;
    int slow[MANY];
    start(&p, 0);
    for (int i = 0; i < MANY; i++) {
        slow[i] = connect_to(&p);
        send_text(slow[i], "GET /metrics HTTP/1.1\r\nX: ");
    }
    run_for(&p, 50);
    CHECK(!is_closed(slow[0]) && !is_closed(slow[MANY - 1]));
    AUTO(free) char *answer = ask(&p, "GET /metrics HTTP/1.1\r\n\r\n");
    CHECK_HAS(answer, "HTTP/1.1 200 OK\r\n");
    CHECK(is_closed(slow[0]) && !is_closed(slow[1]));
    for (int i = 0; i < MANY; i++)
        close(slow[i]);
    stop(&p);
}

/* One deadline for the whole connection: bytes that arrive now and then do not move it. */
TEST(a_slow_reader_and_a_slow_writer_are_disconnected)
{
    struct place p;
    start(&p, 8 << 20); /* more than the kernel's buffers hold */
    AUTO(fd) int slow = connect_to(&p), deaf = connect_to(&p), idle = connect_to(&p);
    send_text(slow, "GET /metrics HTTP/1.1\r\nX: ");
    send_text(deaf, "GET /metrics HTTP/1.1\r\n\r\n");
    int64_t begin = clock_ms();
    while (!is_closed(slow) && clock_ms() < begin + LIMIT_MS) {
        (void)send(slow, "y", 1, MSG_NOSIGNAL);
        run_for(&p, 200);
    }
    CHECK(is_closed(slow) && clock_ms() - begin > 9000);
    CHECK(is_closed(idle));
    AUTO(free) char *part = NULL;
    size_t got = 0;
    char block[65536];
    for (ssize_t n; (n = recv(deaf, block, sizeof block, 0)) > 0; got += (size_t)n)
        ;
    CHECK(is_closed(deaf) && got > 0 && got < 8 << 20);
    stop(&p);
}

TEST(it_ends_while_clients_of_all_kinds_are_connected)
{
    struct place p;
    int fds[MANY];
    start(&p, 8 << 20);
    for (int i = 0; i < MANY; i++) {
        fds[i] = connect_to(&p);
        if (i % 3)
            send_text(fds[i], i % 3 == 1 ? "GET /metrics HTTP/1.1\r\n\r\n" : "GET /met");
        if (i % 5 == 0)
            uv_run(&p.loop, UV_RUN_NOWAIT);
        if (i % 7 == 0)
            close(fds[i]);
    }
    stop(&p);
    for (int i = 0; i < MANY; i++)
        if (i % 7)
            close(fds[i]);
}

TEST(a_server_that_was_not_started_lets_go_of_its_port)
{
    struct metrics_server *s = NULL, *again = NULL;
    struct err e = {0};
    CHECK_INT(metrics_server_open(&s, "0", &e), 0);
    int port = 0;
    CHECK_INT(sscanf(metrics_server_url(s), "http://127.0.0.1:%d/metrics", &port), 1);
    AUTO(free) char *address = xasprintf("%d", port);
    CHECK_INT(metrics_server_open(&again, address, &e), -EADDRINUSE);
    CHECK_HAS(e.text, "--metrics: ");
    CHECK_STR(e.hint, "another port, or 0 for a free one");
    metrics_server_close(s);
    CHECK_INT(metrics_server_open(&again, address, &e), 0);
    metrics_server_close(again);
}
