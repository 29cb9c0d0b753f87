/* link - a worker's connection to the coordinator: it reconnects by itself, counts its connections
 * (wire.h) and tells when one has opened. One that is in use is made anew from time to time:
 * libzmq's queues take 64 KiB a connection at the coordinator once some hundred messages have
 * passed, 8 when it is new, and of 10,000 workers that is its memory. */
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
    /* A connection has opened: say hello, then all that was not acknowledged. */
    void (*opened)(void *arg);
    /* The coordinator said something on this connection. `m` is borrowed during the call. Never
     * WIRE_RECONNECT: that is answered by opening a new connection. */
    void (*message)(void *arg, const struct wire_msg *m);
    /* The coordinator will never have us: a wrong key, another version. */
    void (*rejected)(void *arg, const struct err *e);
};

struct transport_client_opts {
    const char *endpoint;
    const char *id; /* becomes the socket's routing id: at most WIRE_WORKER_MAX characters */
    const struct curve_keys *keys; /* NULL: none are asked for */
    int beat_ms;                   /* a connection whose other end is silent for two is made anew */
    int renew_ms; /* so is one that carried some messages, after this to twice this, at random so
                     that thousands do not come at once; > 0 */
};

/* The events are borrowed. -EINVAL and others as zmq_connect(): the endpoint is none */
int transport_client_open(struct transport_client **out, uv_loop_t *loop,
                          const struct transport_client_opts *to,
                          const struct transport_client_events *ev, void *arg, struct err *e);
/* What was said and not yet sent has half a second to leave. */
void transport_client_close(struct transport_client *l);
AUTO_DEFINE(transport_client, struct transport_client *, transport_client_close)

/* Says it on the present connection (m->conn is not looked at). Where there is none, nothing is
 * done: what matters is said again when one has opened. */
void transport_client_send(struct transport_client *l, const struct wire_msg *m);

/* From now on it is not made anew while it is in use, so that what is said next arrives. */
void transport_client_pin(struct transport_client *l);

/* Milliseconds since the coordinator was last heard, or since the link was opened. */
int64_t transport_client_silent_ms(const struct transport_client *l);
/* We were not listening ourselves: the silence starts anew. */
void transport_client_reset_deadline(struct transport_client *l);
bool transport_client_was_ever_open(const struct transport_client *l);
/* Whether the last that was there closed the connection before it was open. */
bool transport_client_was_rejected(const struct transport_client *l);

#endif
