/* door - a socket's tcp side: it listens there too, lets in who has the right key, and tells of
 * those who have not. */
#ifndef DROVER_ZAP_AUTH_H
#define DROVER_ZAP_AUTH_H

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/transport/curve_keys.h"

struct zap_auth;

struct zap_auth_opts {
    uv_loop_t *loop;
    void *zmq, *sock;              /* its context has no other door */
    const char *address;           /* tcp://HOST:PORT; port 0: a free one */
    const struct curve_keys *keys; /* copied; NULL: everybody is let in */
};

/* Binds the socket; what it was bound to before keeps its own rules. *bound is the address with its
 * port, to be freed. Who is refused is logged once a minute, with the number of those meanwhile.
 *   as zmq_bind() */
int zap_auth_open(struct zap_auth **out, const struct zap_auth_opts *ask, char **bound,
                  struct err *e);
/* Before the socket is closed. */
void zap_auth_close(struct zap_auth *d);
AUTO_DEFINE(zap_auth, struct zap_auth *, zap_auth_close)

#endif
