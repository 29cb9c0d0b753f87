/* port_hold - chooses MASTER_PORT and keeps it from other processes until the job ends.
 *
 * Holds the port with a socket that is bound but never listens. The socket sets SO_REUSEADDR, and
 * so does the rank that will listen (torch's TCPStore, Python's servers and most others do). So the
 * kernel lets the rank bind the port, too, but does not give the port to a process that requests
 * any free port. SO_REUSEPORT is not used, since the rank would also have to set it. A program that
 * does not set SO_REUSEADDR needs a port that is not held. */
#pragma once

#include "common/err.h"
#include "common/host_port.h"

/* Binds a free TCP port, or `requested` if it is not 0, on all addresses of this machine (IPv6 and
 * IPv4). Close `*fd` to free the port.
 *   -EADDRINUSE  `requested` is in use; the text names the process, if it can be found
 *   -EACCES      the port is below 1,024 and requires a privilege
 *   -EINVAL      not a port */
int port_hold(int *fd, int *port, int requested, struct err *e);

/* The same with the first free port of `ports`, which --port-range has set. If `ports` is
 * zero-initialised, any free port. */
int port_hold_in(int *fd, int *port, struct host_port_range ports, struct err *e);
