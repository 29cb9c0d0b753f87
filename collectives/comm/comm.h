/* comm - the implementation of drover.h's communicators, and access to it for `drover bench`.
 *
 * comm_calls.c has drover.h's collectives: each one calls comm_start(). */
#ifndef DROVER_COMM_H
#define DROVER_COMM_H

#include "collectives/comm/backend.h"

/* Checks and starts any collective, with the errors of drover.h's functions. Sets call->factor. */
int comm_start(struct drover_comm *c, struct backend_call *call);

/* The backend of a communicator, and its object there. Borrowed. */
const struct backend *comm_backend(const struct drover_comm *c);
struct backend_comm *comm_inner(const struct drover_comm *c);

/* Collects `bytes` of host memory from every rank in `all`, in the order of the ranks. Collective.
 * Waits up to wait_ms for it and for all calls before it. Returns 0 or a negative errno;
 * drover_error() has the text. */
int comm_gather(struct drover_comm *c, const void *mine, size_t bytes, void *all, int64_t wait_ms);

#endif
