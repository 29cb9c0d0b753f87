/* hub - the coordinator's end of the wire: a ROUTER socket, the workers that are known, and whose
 * messages count (wire.h). */
#ifndef DROVER_TRANSPORT_SERVER_H
#define DROVER_TRANSPORT_SERVER_H

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/transport/curve_keys.h"
#include "hpo/transport/peer_table.h"
#include "hpo/transport/wire.h"

struct transport_server;

struct transport_server_events {
    /* A worker said something on its present connection. Pings are answered already. */
    void (*message)(void *arg, const char *worker, const struct wire_msg *m);
    /* What had arrived has been heard, or a bounded part of it. */
    void (*batch_end)(void *arg);
};

/* Listens on `endpoint`. The events are borrowed. */
int transport_server_open(struct transport_server **out, uv_loop_t *loop, const char *endpoint,
                          const struct transport_server_events *ev, void *arg, struct err *e);
/* Listens on a tcp:// address too: with keys only to who has the sweep's, without (NULL) to
 * everybody. Who is refused is logged once, then counted. *bound is the address with its port, to
 * be freed. Once in a hub's life.
 *   -EADDRINUSE, -EADDRNOTAVAIL, -ENODEV, -EINVAL  as zmq_bind() */
int transport_server_listen(struct transport_server *h, const char *address,
                            const struct curve_keys *keys, char **bound, struct err *e);

/* What was said and not yet sent has half a second to leave. */
void transport_server_close(struct transport_server *h);
AUTO_DEFINE(transport_server, struct transport_server *, transport_server_close)

/* Says it to a worker (m->conn is not looked at). To one that is gone nothing is said, and that is
 * no error: it learns all when it says hello.
 *   as wire_encode() */
int transport_server_send(struct transport_server *h, const char *worker, const struct wire_msg *m,
                          struct err *e);
/* To every worker that is not lost. */
void transport_server_broadcast(struct transport_server *h, enum wire_kind kind);

/* From now on it is not listened to until it says hello again. */
void transport_server_mark_lost(struct transport_server *h, const char *worker);

/* The id of one that is not lost, and has not been heard for `ms` and three of its pings, or does
 * not read what it is told; NULL: none. Borrowed until the next turn. Looks from *from (0 at first)
 * on, and leaves there where to look for the next. */
const char *transport_server_silent(const struct transport_server *h, int64_t ms, size_t *from);

/* We were not listening ourselves: everybody's silence starts anew. */
void transport_server_reset_deadlines(struct transport_server *h);

/* All that ever said hello; borrowed until the next turn. */
const struct peer_table *transport_server_peers(const struct transport_server *h);

#endif
