/* host_port - addresses as users write them: HOST:PORT, [IPV6]:PORT, HOST, :PORT or PORT. */
#pragma once

#include <stdbool.h>

#include "common/err.h"

enum { HOST_PORT_NAME_SIZE = 128 };

struct host_port {
    char host[HOST_PORT_NAME_SIZE]; /* without brackets; "": not given */
    int port;                       /* 0 to 65535; -1: not given */
    bool only_port;                 /* "9400", not ":9400" */
};

/* Reads an address. Names of hosts are not resolved. An IPv6 address with a port is in brackets.
 *   -EINVAL  malformed, or not a port */
int host_port_parse(struct host_port *out, const char *text, struct err *e);

/* Ports of which one is free; zero-initialised: any port. */
struct host_port_range {
    int first, last; /* 1 to 65535, or both 0 */
};
/* Reads "A-B", or "A" for one port.
 *   -EINVAL  malformed, not ports, or A exceeds B */
int host_port_read_range(struct host_port_range *out, const char *text, struct err *e);

/* Returns "HOST:PORT", or "[HOST]:PORT" if the host is an IPv6 address. The caller frees it. */
char *host_port_text(const char *host, int port);
