/* rdzv_server - the server of torchrun's rendezvous: listens at --rdzv-endpoint and sends every
 * node that joins what elastic/rdzv_policy.h decides. */
#ifndef DROVER_RDZV_SERVER_H
#define DROVER_RDZV_SERVER_H

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/elastic/rdzv_client.h"

struct rdzv_server;

/* Listens on opts->port (0: any) of all addresses, or only of loopback if opts->host is a name of
 * it.
 * `*bound` is then the port. Copies what it needs of `opts`.
 *   -EADDRINUSE  another process has the port, which may be another node's server */
int rdzv_server_open(struct rdzv_server **out, uv_loop_t *loop, const struct rdzv_client_opts *opts,
                     int *bound, struct err *e);
/* Ends all connections. Its handles close in the loop's next iteration. */
void rdzv_server_close(struct rdzv_server *h);
AUTO_DEFINE(rdzv_server, struct rdzv_server *, rdzv_server_close)

#endif
