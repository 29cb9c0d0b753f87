/* transport_client - a worker's connection to its coordinator, over ZeroMQ.
 *
 * The client reconnects by itself, counts its connections (wire.h) and reports each new one. From
 * time to time it also renews a connection that is in use. After some hundred messages, libzmq's
 * queues take 64 KiB per connection at the coordinator; on a new connection they take 8 KiB. With
 * 10,000 workers these queues are most of the coordinator's memory. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/transport/curve_keys.h"
#include "hpo/transport/wire.h"

struct transport_client;

struct transport_client_events {
    /* A connection has opened. The worker must send a hello, then all messages that are not
     * acknowledged. */
    void (*opened)(void *arg);
    /* A message of the coordinator has arrived on this connection. `m` is borrowed during the call.
     * It is never WIRE_RECONNECT, which the client handles itself: it opens a new connection. */
    void (*message)(void *arg, const struct wire_msg *m);
    /* The coordinator rejects this worker, and trying again is useless: the key is wrong, or the
     * coordinator has another version. */
    void (*rejected)(void *arg, const struct err *e);
};

struct transport_client_opts {
    const char *endpoint;
    const char *id;                /* the socket's routing id: at most WIRE_WORKER_MAX characters */
    const struct curve_keys *keys; /* NULL: the coordinator requires no keys */
    int beat_ms;  /* heartbeat interval; the client reconnects after two without an answer */
    int renew_ms; /* > 0; a used connection is renewed after a random time of one to two times this,
                     so that thousands of workers do not reconnect at the same time */
};

/* Opens a client, which connects in the background; the caller closes `*out`. Borrows `ev`.
 *   as zmq_connect(): -EINVAL and others  the endpoint is invalid */
int transport_client_open(struct transport_client **out, uv_loop_t *loop,
                          const struct transport_client_opts *opts,
                          const struct transport_client_events *ev, void *arg, struct err *e);
/* Closes the client. Blocks until all messages are sent, but at most half a second. */
void transport_client_close(struct transport_client *c);
AUTO_DEFINE(transport_client, struct transport_client *, transport_client_close)

/* Sends a message on the present connection (m->conn is ignored). Without a connection the message
 * is dropped: when a connection opens, the caller must send important messages again. */
void transport_client_send(struct transport_client *c, const struct wire_msg *m);

/* Disconnects: from now on nothing is sent, and what is not sent yet is dropped. */
void transport_client_leave(struct transport_client *c);

/* From now on the client does not renew its connection, so that the next messages arrive without a
 * delay. */
void transport_client_pin(struct transport_client *c);

/* Returns the milliseconds since the last message of the coordinator, or since the client was
 * opened. */
int64_t transport_client_silent_ms(const struct transport_client *c);
/* Restarts the measurement of the silence. The caller calls it if this process did not read
 * messages for some time. */
void transport_client_reset_deadline(struct transport_client *c);
bool transport_client_was_ever_open(const struct transport_client *c);
/* Returns true if the last handshake failed: the peer closed the connection before it was open. */
bool transport_client_was_rejected(const struct transport_client *c);
