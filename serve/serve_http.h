/* serve_http - the connections of the dashboard: libmicrohttpd in this process's only loop.
 *
 * At most SERVE_HTTP_PEERS_MAX connections are open. One more takes the place of the connection
 * that is least missed: one without a complete request, then an idle one, then a stream of events,
 * which its page opens again. A client that does not read loses its connection after a while. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/mem.h"
#include "serve/serve_api.h"

enum {
    SERVE_HTTP_PEERS_MAX = 64,
    SERVE_HTTP_BODIES_MAX = 24 << 20, /* bytes of answers that wait to be sent */
};

struct serve_http;

/* Takes over the descriptor of a listening socket. Borrows the context. */
int serve_http_open(struct serve_http **out, int listener, const struct serve_context *x,
                    struct err *e);
/* Serves until a signal asks this process to stop or, if `until_eof`, until stdin is closed. */
int serve_http_run(struct serve_http *h, bool until_eof, struct err *e);
void serve_http_close(struct serve_http *h);
AUTO_DEFINE(serve_http, struct serve_http *, serve_http_close)
