/* zloop - a ZeroMQ socket in libuv's loop.
 *
 * ZMQ_FD tells of changes, not of states, and each send or receive may swallow a change that was
 * meant for the loop. So zloop asks the socket (ZMQ_EVENTS) in every turn before the loop sleeps: a
 * handler may stop after a bounded batch, and nothing is to be done after a send.
 *
 * All functions belong to the loop's thread. */
#ifndef DROVER_ZMQ_UV_H
#define DROVER_ZMQ_UV_H

#include <uv.h>

#include "common/err.h"

struct zmq_uv;

typedef void zmq_uv_ready_fn(struct zmq_uv *z, void *arg);

/* Calls `ready` once a turn while the socket has something to read (ZMQ_POLLIN). Borrows the loop
 * and the socket; the socket must outlive it. Keeps the loop alive until it is closed.
 *   negative errno  it is no socket, or the loop refused */
int zmq_uv_open(struct zmq_uv **out, uv_loop_t *loop, void *zmq_socket, zmq_uv_ready_fn *ready,
                void *arg, struct err *e);

/* Asks for a call of `ready` on the next turn, even where nothing is to be read then; others have
 * their turn first. For a handler that has work left of its own; unread messages need no asking. */
void zmq_uv_again(struct zmq_uv *z);

/* Ends it: no call of `ready` follows, the socket may be closed at once. Its handles close on the
 * loop's next turn, which frees `z`. May be called inside `ready`. NULL is fine. */
void zmq_uv_close(struct zmq_uv *z);

#endif
