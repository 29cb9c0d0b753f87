/* listen - where a coordinator hears workers of other machines, and what these are given.
 *
 *     sweeps/NAME/listen    "tcp://0.0.0.0:41234", or "tcp://127.0.0.1:41234 plain": the address is
 *                           kept, so that workers find the next coordinator where the last one was
 */
#ifndef DROVER_LISTEN_ENDPOINT_H
#define DROVER_LISTEN_ENDPOINT_H

#include <stdbool.h>

#include "common/err.h"
#include "hpo/transport/transport_server.h"

struct listen_endpoint_opts {
    const char *address; /* "[ADDRESS][:PORT]"; without ADDRESS all there are, without PORT the one
                            of the last time or a free one; NULL: as last time, or not at all */
    bool plain;          /* without keys, which only loopback is allowed */
};

/*   -EINVAL  it is no such address, or plain and not on loopback */
int listen_endpoint_check(const struct listen_endpoint_opts *ask, struct err *e);

/* Has the hub listen, and writes DIR/listen and, unless it is plain, DIR/worker.key. `ask` has
 * passed listen_endpoint_check(). *endpoint is what workers connect to, to be freed; NULL where it
 * was never asked to listen. -EADDRINUSE, … as zmq_bind(); others as curve_keys_of_sweep() */
int listen_endpoint_open(struct transport_server *h, const char *dir,
                         const struct listen_endpoint_opts *ask, char **endpoint, struct err *e);

#endif
