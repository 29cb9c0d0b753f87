/* listen_endpoint - the address where a coordinator accepts workers of other machines, and the key
 * file for them.
 *
 *     sweeps/NAME/listen    "tcp://0.0.0.0:41234", or "tcp://127.0.0.1:41234 plain". The address is
 *                           kept, so that workers find the next coordinator at the same place
 */
#ifndef DROVER_LISTEN_ENDPOINT_H
#define DROVER_LISTEN_ENDPOINT_H

#include <stdbool.h>

#include "common/err.h"
#include "hpo/transport/transport_server.h"

struct listen_endpoint_opts {
    const char *address; /* "[ADDRESS][:PORT]"; without ADDRESS all addresses, without PORT the port
                            of the last time or a free one; NULL: as the last time, if ever */
    bool plain;          /* without keys, which is permitted on loopback only */
};

/*   -EINVAL  the address is invalid, or plain and not on loopback */
int listen_endpoint_check(const struct listen_endpoint_opts *opts, struct err *e);

/* Makes the server listen, and writes DIR/listen and, unless it is plain, DIR/worker.key. `opts`
 * has passed listen_endpoint_check(). *endpoint is what workers connect to, to be freed; NULL: the
 * sweep was never told to listen. -EADDRINUSE, …  as zmq_bind() others          as
 * curve_keys_of_sweep() */
int listen_endpoint_open(struct transport_server *s, const char *dir,
                         const struct listen_endpoint_opts *opts, char **endpoint, struct err *e);

#endif
