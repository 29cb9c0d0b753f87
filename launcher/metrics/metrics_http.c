/* The plug-in: libmicrohttpd in one thread, which waits in poll(). The thread and the program share
 * one response, which the program replaces.
 *
 * The thread is not libmicrohttpd's own: version 0.9.75 crashes if MHD_stop_daemon() is called
 * while its thread refuses a request, such as one whose headers are too long. */
#include "launcher/metrics/metrics_http.h"

#include <limits.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 64,
    TIMEOUT_S = 10,         /* of an idle connection */
    REQUEST_BYTES = 8 << 10 /* headers of one request */
};

struct metrics_http {
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock;      /* of `page`; held for some instructions */
    struct MHD_Response *page; /* the latest text */
    struct MHD_Response *not_found, *not_allowed;
    int end; /* eventfd: becomes readable when the thread must end */
    pthread_t thread;
    bool runs;
};

static struct MHD_Response *response(size_t len, char *text, enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(len, text, mode);
    if (r)
        MHD_add_response_header(r, "Content-Type", "text/plain; version=0.0.4; charset=utf-8");
    return r;
}

static struct MHD_Response *copy_of(const char *text)
{
    return response(strlen(text), (char *)text, MHD_RESPMEM_MUST_COPY);
}

static enum MHD_Result answer(void *arg, struct MHD_Connection *c, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    struct metrics_http *h = arg;
    (void)version, (void)upload, (void)upload_size, (void)state;
    if (strcmp(url, "/metrics") != 0)
        return MHD_queue_response(c, MHD_HTTP_NOT_FOUND, h->not_found);
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0)
        return MHD_queue_response(c, MHD_HTTP_METHOD_NOT_ALLOWED, h->not_allowed);
    pthread_mutex_lock(&h->lock);
    enum MHD_Result rc = MHD_queue_response(c, MHD_HTTP_OK, h->page);
    pthread_mutex_unlock(&h->lock);
    return rc;
}

static void set(struct metrics_http *h, char *text, size_t len)
{
    struct MHD_Response *page = response(len, text, MHD_RESPMEM_MUST_FREE);
    if (!page) {
        free(text);
        return;
    }
    pthread_mutex_lock(&h->lock);
    struct MHD_Response *before = h->page;
    h->page = page;
    pthread_mutex_unlock(&h->lock);
    MHD_destroy_response(before); /* a connection that sends it keeps it */
}

/* Returns the milliseconds until a connection has been idle for too long; -1: there is none. */
static int wait_ms(struct MHD_Daemon *daemon)
{
    MHD_UNSIGNED_LONG_LONG ms;
    if (MHD_get_timeout(daemon, &ms) != MHD_YES)
        return -1;
    return ms < INT_MAX ? (int)ms : INT_MAX;
}

static void *serve(void *arg)
{
    struct metrics_http *h = arg;
    int epoll = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    struct pollfd p[] = {{h->end, POLLIN, 0}, {epoll, POLLIN, 0}};
    while (!(p[0].revents & POLLIN)) {
        MHD_run(h->daemon);
        (void)poll(p, sizeof p / sizeof *p, wait_ms(h->daemon));
    }
    return NULL;
}

static void stop(struct metrics_http *h)
{
    static const uint64_t one = 1;
    if (h->runs) {
        (void)!write(h->end, &one, sizeof one); /* an empty counter has room */
        pthread_join(h->thread, NULL);
    }
    if (h->daemon)
        MHD_stop_daemon(h->daemon);
    struct MHD_Response *all[] = {h->page, h->not_found, h->not_allowed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            MHD_destroy_response(all[i]);
    if (h->end >= 0)
        close(h->end);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

static struct MHD_Daemon *start_daemon(struct metrics_http *h, int fd)
{
    return MHD_start_daemon(MHD_USE_EPOLL, 0, NULL, NULL, answer, h, MHD_OPTION_LISTEN_SOCKET, fd,
                            MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
                            MHD_OPTION_END);
}

static bool start_thread(struct metrics_http *h)
{
    sigset_t all, before; /* the thread takes no signal */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    h->runs = pthread_create(&h->thread, NULL, serve, h) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return h->runs;
}

static struct metrics_http *start(int fd, const char *text)
{
    struct metrics_http *h = calloc(1, sizeof *h);
    if (!h) {
        close(fd);
        return NULL;
    }
    pthread_mutex_init(&h->lock, NULL);
    h->page = copy_of(text);
    h->not_found = copy_of("drover: not found; try: /metrics\n");
    h->not_allowed = copy_of("drover: only GET is allowed\n");
    if (h->not_allowed)
        MHD_add_response_header(h->not_allowed, "Allow", "GET");
    h->end = eventfd(0, EFD_CLOEXEC);
    if (h->end >= 0 && h->page && h->not_found && h->not_allowed)
        h->daemon = start_daemon(h, fd);
    if (!h->daemon)
        close(fd);
    else if (start_thread(h))
        return h;
    stop(h);
    return NULL;
}

__attribute__((visibility("default"))) const struct metrics_http_plugin metrics_http_functions = {
    .abi = METRICS_HTTP_ABI, .start = start, .set = set, .stop = stop};
