/* rdzv_server - the server of torchrun's rendezvous: listens at --rdzv-endpoint, and sends the
 * decisions of rdzv_policy.h to the nodes that have joined. */
#pragma once

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/elastic/rdzv_client.h"

struct rdzv_server;

/* Listens on the port opts->port (0: any) of all addresses, or only of the loopback address if
 * opts->host is a name of it. Sets `*bound` to the port. The strings of `opts` are borrowed.
 *   -EADDRINUSE  another process has the port; it may be the server of another node */
int rdzv_server_open(struct rdzv_server **out, uv_loop_t *loop, const struct rdzv_client_opts *opts,
                     int *bound, struct err *e);
/* Closes the server and all connections. The handles close in the loop's next iteration. */
void rdzv_server_close(struct rdzv_server *h);
AUTO_DEFINE(rdzv_server, struct rdzv_server *, rdzv_server_close)
