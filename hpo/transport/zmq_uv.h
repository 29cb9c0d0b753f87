/* zmq_uv - a ZeroMQ socket in libuv's loop.
 *
 * ZMQ_FD reports changes of the state, not the state, and each send or receive may consume a change
 * before the loop sees it. So zmq_uv polls the socket (ZMQ_EVENTS) in every iteration before the
 * loop sleeps. Therefore a handler may leave messages for the next iteration, and a sender need not
 * do anything after a send.
 *
 * All functions must be called in the loop's thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"

/* Describes the last error of ZeroMQ. Returns the negative errno for it. */
int zmq_uv_failed(const char *what, struct err *e);

struct zmq_uv_option { /* of a socket, whose value is an integer */
    int option, value;
};
int zmq_uv_set(void *zmq_socket, const struct zmq_uv_option *list, size_t count, struct err *e);

/* Opens a socket that receives `events` of a socket, under a name that is new in the context. The
 * caller closes `*out`, also after a failure. */
int zmq_uv_monitor(void **out, void *zmq, void *watched, const char *name, int events,
                   struct err *e);
/* Receives an event and its value. Returns false if none waits. */
bool zmq_uv_event(void *monitor, uint16_t *event, uint32_t *value);

struct zmq_uv;

typedef void zmq_uv_ready_fn(struct zmq_uv *z, void *arg);

/* Calls `ready` once per iteration while the socket has something to read (ZMQ_POLLIN). Borrows the
 * loop and the socket; the socket must outlive `*out`, which keeps the loop alive until
 * zmq_uv_close().
 *   negative errno  not a socket, or libuv failed */
int zmq_uv_open(struct zmq_uv **out, uv_loop_t *loop, void *zmq_socket, zmq_uv_ready_fn *ready,
                void *arg, struct err *e);

/* Closes `z`. `ready` is not called again, and the caller may close the socket immediately. The
 * loop's next iteration closes the handles and frees `z`. May be called in `ready`. `z` may be
 * NULL. */
void zmq_uv_close(struct zmq_uv *z);
