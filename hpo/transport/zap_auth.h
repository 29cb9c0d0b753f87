/* zap_auth - the TCP side of a ZeroMQ socket: binds the socket, authenticates peers by their CURVE
 * key (ZAP, ZeroMQ's RFC 27), and logs rejected connections. */
#pragma once

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/transport/curve_keys.h"

struct zap_auth;

struct zap_auth_opts {
    uv_loop_t *loop;
    void *zmq, *sock;              /* the context must have no other zap_auth */
    const char *address;           /* tcp://HOST:PORT; port 0: any free port */
    const struct curve_keys *keys; /* copied; NULL: every peer is accepted */
};

/* Binds the socket to opts->address. Addresses to which the socket was bound before keep their
 * rules. Sets `*bound` to the address with its port; the caller frees it. Rejected connections are
 * logged at most once per minute, with the number of those that were not logged.
 *   as zmq_bind() */
int zap_auth_open(struct zap_auth **out, const struct zap_auth_opts *opts, char **bound,
                  struct err *e);
/* Must be called before the socket is closed. */
void zap_auth_close(struct zap_auth *a);
AUTO_DEFINE(zap_auth, struct zap_auth *, zap_auth_close)
