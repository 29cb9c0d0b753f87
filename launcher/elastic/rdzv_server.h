/* rdzv_host - the node that hosts the rendezvous of several torchruns: it listens at
 * --rdzv-endpoint, and tells each node that comes what watch/round.h decides. */
#ifndef DROVER_RDZV_SERVER_H
#define DROVER_RDZV_SERVER_H

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/elastic/rdzv_client.h"

struct rdzv_host;

/* Listens on `port` (0: any) of all addresses, or of loopback where want->host is a name for it.
 * `*bound` is the port. Copies what it needs of `want`.
 *   -EADDRINUSE  another process has the port: the host may be a torchrun beside this one */
int rdzv_host_open(struct rdzv_host **out, uv_loop_t *loop, const struct rdzv_want *want,
                   int *bound, struct err *e);
/* Nodes that are there see their connection end. Its handles close on the loop's next turn. */
void rdzv_host_close(struct rdzv_host *h);
AUTO_DEFINE(rdzv_host, struct rdzv_host *, rdzv_host_close)

#endif
