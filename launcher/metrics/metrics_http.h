/* metrics_http - the interface of the plug-in that serves /metrics over HTTP. */
#ifndef DROVER_METRICS_HTTP_H
#define DROVER_METRICS_HTTP_H

#include <stddef.h>

enum { METRICS_HTTP_ABI = 1 };

struct metrics_http;

struct metrics_http_plugin {
    unsigned abi; /* METRICS_HTTP_ABI; the loader checks it before it reads the rest */
    /* Serves `text` on a listening socket, in a thread of its own. Takes the ownership of the
     * socket. Returns NULL if the server cannot be started. */
    struct metrics_http *(*start)(int fd, const char *text);
    /* Replaces the text. Takes the ownership of `text`, which malloc() has made. Never waits for a
     * client. */
    void (*set)(struct metrics_http *h, char *text, size_t len);
    /* Closes all connections and ends the thread. */
    void (*stop)(struct metrics_http *h);
};

extern const struct metrics_http_plugin metrics_http_functions;

#endif
