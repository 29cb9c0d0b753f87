/* transport_server - the coordinator's end of the wire: a ROUTER socket and the table of workers.
 * It drops messages of old connections (wire.h). */
#pragma once

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/transport/curve_keys.h"
#include "hpo/transport/peer_table.h"
#include "hpo/transport/wire.h"

struct transport_server;

struct transport_server_events {
    /* A message of a worker has arrived on its present connection. Pings are not reported: the
     * server answers them. */
    void (*message)(void *arg, const char *worker, const struct wire_msg *m);
    /* A batch has ended: all messages that had arrived were reported, or a limited number of
     * them. */
    void (*batch_end)(void *arg);
};

/* Opens a server that listens on `endpoint`; the caller closes `*out`. Borrows `ev`.
 *   as zmq_bind() */
int transport_server_open(struct transport_server **out, uv_loop_t *loop, const char *endpoint,
                          const struct transport_server_events *ev, void *arg, struct err *e);
/* Listens on a tcp:// address, too. May be called once per server. With `keys` the server accepts
 * only peers that have the sweep's key; with NULL it accepts every peer. Rejected connections are
 * logged, at most one per minute. Sets `*bound` to the address with its port; the caller frees it.
 *   -EADDRINUSE, -EADDRNOTAVAIL, -ENODEV, -EINVAL  as zmq_bind() */
int transport_server_listen(struct transport_server *s, const char *address,
                            const struct curve_keys *keys, char **bound, struct err *e);

/* Closes the server. Blocks until all messages are sent, but at most half a second. */
void transport_server_close(struct transport_server *s);
AUTO_DEFINE(transport_server, struct transport_server *, transport_server_close)

/* Sends a message to a worker (m->conn is ignored). A message to a worker that is lost is dropped,
 * which is not an error: after its next hello the worker is told all that it needs.
 *   as wire_encode() */
int transport_server_send(struct transport_server *s, const char *worker, const struct wire_msg *m,
                          struct err *e);
/* Sends a message without data to every worker that is not lost. */
void transport_server_broadcast(struct transport_server *s, enum wire_kind kind);

/* Marks the worker as lost: its messages are ignored until its next hello. */
void transport_server_mark_lost(struct transport_server *s, const char *worker);
/* The same; and the worker's next hello may be that of its first connection. */
void transport_server_forget(struct transport_server *s, const char *worker);

/* Returns the id of a worker that should count as lost, or NULL if there is none: it was silent for
 * `ms` and for three of its ping intervals, or it does not read its messages. Workers that are
 * marked as lost are skipped. Borrowed until the next batch. `*from` must be 0 in the first call;
 * each call sets it so that the next one continues the search. */
const char *transport_server_silent(const struct transport_server *s, int64_t ms, size_t *from);

/* Restarts the measurement of the silence of all workers. The caller calls it if this process did
 * not read messages for some time. */
void transport_server_reset_deadlines(struct transport_server *s);

/* Returns all workers that ever sent a hello. Borrowed until the next batch. */
const struct peer_table *transport_server_peers(const struct transport_server *s);
