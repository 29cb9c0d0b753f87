/* port - MASTER_PORT: chosen here, and kept from others until the job is over.
 *
 * The keeper is a socket that is bound but never listens. Like it, the rank that will listen sets
 * SO_REUSEADDR (as torch's TCPStore, Python's servers and most others do), so the kernel lets it
 * in beside us and gives the port to nobody who asks for any free one. Not SO_REUSEPORT: the rank
 * would have to set that too. A taker without SO_REUSEADDR needs a port that is not held. */
#ifndef DROVER_PORT_HOLD_H
#define DROVER_PORT_HOLD_H

#include "common/err.h"

/* A free TCP port, or `wanted` where that is not 0, on all addresses of this machine (IPv6 and
 * IPv4). `*fd` is to be closed when the port is to be free again.
 *   -EADDRINUSE  `wanted` is taken; the text names by whom, where that can be told
 *   -EACCES      it is below 1,024 and we may not
 *   -EINVAL      it is no port */
int port_hold(int *fd, int *port, int wanted, struct err *e);

#endif
