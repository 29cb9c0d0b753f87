/* The plug-in: libmicrohttpd with one thread that waits in epoll_wait(). The thread and the
 * program share one response, which the program replaces. */
#include "launcher/metrics/metrics_http.h"

#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

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

static void stop(struct metrics_http *h)
{
    if (h->daemon)
        MHD_stop_daemon(h->daemon);
    struct MHD_Response *all[] = {h->page, h->not_found, h->not_allowed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            MHD_destroy_response(all[i]);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

static struct metrics_http *start(int fd, const char *text)
{
    struct metrics_http *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    pthread_mutex_init(&h->lock, NULL);
    h->page = copy_of(text);
    h->not_found = copy_of("drover: not found; try: /metrics\n");
    h->not_allowed = copy_of("drover: only GET is allowed\n");
    if (h->not_allowed)
        MHD_add_response_header(h->not_allowed, "Allow", "GET");
    sigset_t all, before; /* the thread takes no signal */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (h->page && h->not_found && h->not_allowed)
        h->daemon = MHD_start_daemon(
            MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC, 0, NULL, NULL, answer, h,
            MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
            MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
            (size_t)REQUEST_BYTES, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (h->daemon)
        return h;
    stop(h);
    return NULL;
}

__attribute__((visibility("default"))) const struct metrics_http_plugin metrics_http_functions = {
    .abi = METRICS_HTTP_ABI, .start = start, .set = set, .stop = stop};
