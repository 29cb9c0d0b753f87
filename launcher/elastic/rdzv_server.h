/* rdzv_host - the node that hosts the rendezvous of several torchruns: it listens at
 * --rdzv-endpoint, and tells each node that comes what watch/round.h decides. */
#ifndef DROVER_RDZV_SERVER_H
#define DROVER_RDZV_SERVER_H

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/elastic/rdzv_client.h"

struct rdzv_server;

/* Listens on `port` (0: any) of all addresses, or of loopback where want->host is a name for it.
 * `*bound` is the port. Copies what it needs of `want`.
 *   -EADDRINUSE  another process has the port: the host may be a torchrun beside this one */
int rdzv_server_open(struct rdzv_server **out, uv_loop_t *loop, const struct rdzv_client_opts *want,
                     int *bound, struct err *e);
/* Nodes that are there see their connection end. Its handles close on the loop's next turn. */
void rdzv_server_close(struct rdzv_server *h);
AUTO_DEFINE(rdzv_server, struct rdzv_server *, rdzv_server_close)

#endif
