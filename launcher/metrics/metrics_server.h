/* metrics_server - serves /metrics (`--metrics`): once per second the loop writes the text, and a
 * thread of the plug-in metrics_http.so sends it to any number of clients. The loop never waits for
 * a client. */
#ifndef DROVER_METRICS_SERVER_H
#define DROVER_METRICS_SERVER_H

#include <uv.h>

#include "common/err.h"
#include "launcher/metrics/metrics_text.h"

struct metrics_server;

/* Listens. Call it when the guardian runs: it starts a thread.
 *   -EINVAL                 `address` is malformed (metrics_address.h)
 *   -ENOENT, -ELIBBAD       there is no plug-in, or it cannot be loaded
 *   -EADDRINUSE and others  it cannot listen */
int metrics_server_open(struct metrics_server **out, const char *address, struct err *e);
/* Starts to write texts: the loop calls `fill`, which adds the values, at once and then each
 * second. Call it once. */
void metrics_server_start(struct metrics_server *s, uv_loop_t *loop,
                          void (*fill)(void *arg, struct metrics_text *t), void *arg);
/* The handle closes in the loop's next iteration. `s` may be NULL. */
void metrics_server_close(struct metrics_server *s);
AUTO_DEFINE(metrics_server, struct metrics_server *, metrics_server_close)

/* Returns the URL: "http://127.0.0.1:9400/metrics"; borrowed. */
const char *metrics_server_url(const struct metrics_server *s);

#endif
