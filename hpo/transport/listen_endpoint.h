/* listen_endpoint - the address at which a coordinator accepts workers of other nodes, and the key
 * file for them.
 *
 *     sweeps/NAME/listen    "tcp://0.0.0.0:41234", or "tcp://127.0.0.1:41234 plain". The file keeps
 *                           the address, so that workers find the next coordinator at the same
 *                           address */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "hpo/transport/transport_server.h"

struct listen_endpoint_opts {
    const char *address; /* "[ADDRESS][:PORT]"; without ADDRESS: all addresses; without PORT: the
                            last coordinator's port or a free one; NULL: as the last coordinator */
    bool plain;          /* no keys are required; only allowed on loopback */
};

/* Checks the options.
 *   -EINVAL  the address is invalid, or plain and not on loopback */
int listen_endpoint_check(const struct listen_endpoint_opts *opts, struct err *e);

/* Makes the server listen. Writes DIR/listen and, unless `plain`, DIR/worker.key. `opts` must have
 * passed listen_endpoint_check(). Sets `*endpoint` to the endpoint that workers connect to; the
 * caller frees it. If opts->address is NULL and the last coordinator did not listen, does nothing.
 *   -EADDRINUSE, …  as zmq_bind()
 *   others          as curve_keys_of_sweep() */
int listen_endpoint_open(struct transport_server *s, const char *dir,
                         const struct listen_endpoint_opts *opts, char **endpoint, struct err *e);
