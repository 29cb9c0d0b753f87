/* transport_server - the coordinator's end of the wire: a ROUTER socket and the table of workers.
 * It drops messages of old connections (wire.h). */
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
    /* A message of a worker on its present connection. Pings are already answered. */
    void (*message)(void *arg, const char *worker, const struct wire_msg *m);
    /* All messages that had arrived were reported, or a limited number of them. */
    void (*batch_end)(void *arg);
};

/* Listens on `endpoint`. Borrows the events. Errors as zmq_bind(). */
int transport_server_open(struct transport_server **out, uv_loop_t *loop, const char *endpoint,
                          const struct transport_server_events *ev, void *arg, struct err *e);
/* Listens on a tcp:// address too, once in a server's life. With keys it accepts only peers that
 * have the sweep's key, without keys (NULL) every peer. A rejected connection is logged, at most
 * one per minute. *bound is the address with its port, to be freed. -EADDRINUSE, -EADDRNOTAVAIL,
 * -ENODEV, -EINVAL  as zmq_bind() */
int transport_server_listen(struct transport_server *s, const char *address,
                            const struct curve_keys *keys, char **bound, struct err *e);

/* Blocks for at most half a second until messages are sent. */
void transport_server_close(struct transport_server *s);
AUTO_DEFINE(transport_server, struct transport_server *, transport_server_close)

/* Sends a message to a worker (m->conn is ignored). A message to a worker that is lost is dropped,
 * which is not an error: a hello brings it up to date.
 *   as wire_encode() */
int transport_server_send(struct transport_server *s, const char *worker, const struct wire_msg *m,
                          struct err *e);
/* Sends a message without data to every worker that is not lost. */
void transport_server_broadcast(struct transport_server *s, enum wire_kind kind);

/* Ignores the worker's messages until its next hello. */
void transport_server_mark_lost(struct transport_server *s, const char *worker);

/* Returns the id of a worker that is not lost and was silent for `ms` and for three of its pings,
 * or that does not read its messages; NULL: there is none. Borrowed until the next turn. Searches
 * from *from (0 at first), and sets it for the next call. */
const char *transport_server_silent(const struct transport_server *s, int64_t ms, size_t *from);

/* The silence of all workers is measured anew: this process did not read messages. */
void transport_server_reset_deadlines(struct transport_server *s);

/* All workers that ever sent a hello. Borrowed until the next turn. */
const struct peer_table *transport_server_peers(const struct transport_server *s);

#endif
