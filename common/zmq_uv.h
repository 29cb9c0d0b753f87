/* zmq_uv - a ZeroMQ socket in libuv's loop.
 *
 * ZMQ_FD reports changes, not states, and each send or receive may consume a change that was meant
 * for the loop. So zmq_uv polls the socket (ZMQ_EVENTS) in every iteration before the loop sleeps.
 * A handler may stop after a bounded batch, and a sender need not do anything after a send.
 *
 * All functions belong to the loop's thread. */
#ifndef DROVER_ZMQ_UV_H
#define DROVER_ZMQ_UV_H

#include <uv.h>

#include "common/err.h"

struct zmq_uv;

typedef void zmq_uv_ready_fn(struct zmq_uv *z, void *arg);

/* Calls `ready` once per iteration while the socket has something to read (ZMQ_POLLIN). Borrows
 * the loop and the socket; the socket must outlive it. Keeps the loop alive until it is closed.
 *   negative errno  not a socket, or libuv failed */
int zmq_uv_open(struct zmq_uv **out, uv_loop_t *loop, void *zmq_socket, zmq_uv_ready_fn *ready,
                void *arg, struct err *e);

/* Requests a call of `ready` in the next iteration even if the socket has nothing to read then;
 * other handles run first. For a handler with pending work of its own; unread messages need no
 * request. */
void zmq_uv_again(struct zmq_uv *z);

/* Closes it: no call of `ready` follows, and the socket may be closed at once. The handles close
 * in the loop's next iteration, which frees `z`. May be called inside `ready`. NULL is fine. */
void zmq_uv_close(struct zmq_uv *z);

#endif
