/* test_metrics_http - the plug-in that serves /metrics, and clients that ask while it ends. */
#include "launcher/metrics/metrics_http.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/own_process.h"
#include "common/strbuf.h"
#include "tests/unit/test.h"

static const struct metrics_http_plugin *load(void)
{
    AUTO(free) char *path = NULL;
    struct err e = {0};
    CHECK_INT(own_process_sibling(&path, "metrics_http.so", &e), 0);
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        SKIP(dlerror());
    return dlsym(lib, "metrics_http_functions");
}

static int listen_here(struct sockaddr_in *at)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = sizeof *at;
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)at, size) == 0 && listen(fd, 64) == 0);
    CHECK_INT(getsockname(fd, (struct sockaddr *)at, &size), 0);
    return fd;
}

/* Sends the text and returns the answer. */
static char *ask(const struct sockaddr_in *at, const char *text, size_t len)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct strbuf answer = {0};
    char block[4096];
    CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)at, sizeof *at) == 0);
    CHECK_INT(send(fd, text, len, MSG_NOSIGNAL), len);
    for (ssize_t n; (n = recv(fd, block, sizeof block, 0)) > 0;)
        strbuf_add(&answer, block, (size_t)n);
    close(fd);
    return strbuf_take(&answer);
}

TEST(the_latest_text_is_served_and_headers_that_are_too_long_are_refused)
{
    static const char get[] = "GET /metrics HTTP/1.0\r\n\r\n";
    static char many[20000];
    const struct metrics_http_plugin *p = load();
    struct sockaddr_in at;
    struct metrics_http *h = p->start(listen_here(&at), "first 1\n");
    CHECK(h != NULL);
    AUTO(free) char *first = ask(&at, get, strlen(get));
    CHECK_HAS(first, "HTTP/1.1 200 OK");
    CHECK_HAS(first, "\r\n\r\nfirst 1\n");
    p->set(h, xstrdup("second 2\n"), 9);
    AUTO(free) char *second = ask(&at, get, strlen(get));
    CHECK_HAS(second, "\r\n\r\nsecond 2\n");
    memset(many, 'y', sizeof many);
    memcpy(many, "GET /metrics HTTP/1.1\r\nX: ", 26);
    AUTO(free) char *refused = ask(&at, many, 8192);
    CHECK_HAS(refused, "HTTP/1.1 431 ");
    p->stop(h);
}

struct client {
    struct sockaddr_in at;
    atomic_bool ended;
};

/* Sends headers that are too long, on one connection after another. */
static void *flood(void *arg)
{
    struct client *c = arg;
    static char many[9000];
    memset(many, 'y', sizeof many);
    memcpy(many, "GET /metrics HTTP/1.1\r\nX: ", 26);
    while (!c->ended) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            continue;
        /* A blocking connect() waits for a second if the queue is full. */
        (void)connect(fd, (struct sockaddr *)&c->at, sizeof c->at);
        (void)!send(fd, many, sizeof many, MSG_NOSIGNAL);
        close(fd);
    }
    return NULL;
}

/* libmicrohttpd 0.9.75 crashes if it refuses such a request while another thread stops it. */
TEST(clients_that_ask_too_much_while_it_ends_do_no_harm)
{
    const struct metrics_http_plugin *p = load();
    for (int i = 0; i < 300; i++) {
        struct client c = {.ended = false};
        pthread_t threads[2];
        struct metrics_http *h = p->start(listen_here(&c.at), "x 1\n");
        CHECK(h != NULL);
        for (size_t k = 0; k < COUNT_OF(threads); k++)
            CHECK_INT(pthread_create(&threads[k], NULL, flood, &c), 0);
        usleep((useconds_t)(i % 10) * 100);
        p->stop(h);
        c.ended = true;
        for (size_t k = 0; k < COUNT_OF(threads); k++)
            pthread_join(threads[k], NULL);
    }
}
