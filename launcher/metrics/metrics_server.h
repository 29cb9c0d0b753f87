/* metrics_server - serves /metrics over HTTP (`--metrics`), on the loop: once per second it writes
 * the page, which each client gets after its request. It waits for no client. A connection ends
 * after 10 seconds, whatever its client does, and the oldest of 64 makes way for a new one. */
#pragma once

#include <uv.h>

#include "common/err.h"
#include "launcher/metrics/metrics_text.h"

struct metrics_server;

/* Listens. Clients wait until metrics_server_start().
 *   -EINVAL                 `address` is malformed (metrics_address.h)
 *   -EADDRINUSE and others  it cannot listen */
int metrics_server_open(struct metrics_server **out, const char *address, struct err *e);
/* Starts to serve: the loop calls `fill`, which adds the values, at once and then each second.
 * Call it once. */
void metrics_server_start(struct metrics_server *s, uv_loop_t *loop,
                          void (*fill)(void *arg, struct metrics_text *t), void *arg);
/* A job is over, and its last values must be seen: runs the loop until the page has been served
 * again, for twice the time between the last two scrapes at most (60 s if there was one, 120 s if
 * they are rare); not at all if no client has scraped. SIGINT and SIGTERM end it. `waits` (may be
 * NULL) is called before. */
void metrics_server_linger(struct metrics_server *s, void (*waits)(void *arg, int limit_s));
/* Ends all connections. The handles close in the loop's next iteration. `s` may be NULL. */
void metrics_server_close(struct metrics_server *s);
AUTO_DEFINE(metrics_server, struct metrics_server *, metrics_server_close)

/* Returns the URL: "http://127.0.0.1:9400/metrics"; borrowed. */
const char *metrics_server_url(const struct metrics_server *s);
