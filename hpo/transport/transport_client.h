/* transport_client - a worker's connection to its coordinator, over ZeroMQ.
 *
 * The client reconnects by itself, counts its connections (wire.h) and reports each new one. It
 * also renews a connection that is in use from time to time: once some hundred messages have
 * passed, libzmq's queues take 64 KiB per connection at the coordinator, and 8 KiB when the
 * connection is new. With 10,000 workers these queues are most of the coordinator's memory. */
#ifndef DROVER_TRANSPORT_CLIENT_H
#define DROVER_TRANSPORT_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/transport/curve_keys.h"
#include "hpo/transport/wire.h"

struct transport_client;

struct transport_client_events {
    /* A connection has opened: send hello, then all that is not acknowledged. */
    void (*opened)(void *arg);
    /* A message of the coordinator on this connection. `m` is borrowed during the call. Never
     * WIRE_RECONNECT: the client answers it with a new connection. */
    void (*message)(void *arg, const struct wire_msg *m);
    /* The coordinator rejects this worker for good: a wrong key, or another version. */
    void (*rejected)(void *arg, const struct err *e);
};

struct transport_client_opts {
    const char *endpoint;
    const char *id;                /* the socket's routing id: at most WIRE_WORKER_MAX characters */
    const struct curve_keys *keys; /* NULL: the coordinator requires none */
    int beat_ms; /* heartbeat interval; after two of them without an answer the client reconnects */
    int renew_ms; /* a used connection is renewed after one to two times this, at random, so that
                     thousands of workers do not reconnect at once; > 0 */
};

/* Borrows the events.
 *   -EINVAL and others, as zmq_connect(): the endpoint is invalid */
int transport_client_open(struct transport_client **out, uv_loop_t *loop,
                          const struct transport_client_opts *opts,
                          const struct transport_client_events *ev, void *arg, struct err *e);
/* Blocks for at most half a second until messages are sent. */
void transport_client_close(struct transport_client *c);
AUTO_DEFINE(transport_client, struct transport_client *, transport_client_close)

/* Sends a message on the present connection (m->conn is ignored). Without a connection the message
 * is dropped: the caller sends what matters again when a connection opens. */
void transport_client_send(struct transport_client *c, const struct wire_msg *m);

/* Keeps the connection from now on, so that the next messages arrive: it is no longer renewed. */
void transport_client_pin(struct transport_client *c);

/* Milliseconds since the last message of the coordinator, or since the client was opened. */
int64_t transport_client_silent_ms(const struct transport_client *c);
/* The silence is measured anew: this process did not read messages. */
void transport_client_reset_deadline(struct transport_client *c);
bool transport_client_was_ever_open(const struct transport_client *c);
/* Whether the peer closed the last connection before it was open. */
bool transport_client_was_rejected(const struct transport_client *c);

#endif
