/* comm - the implementation of drover.h's communicators, and access to it for `drover bench`.
 *
 * comm_calls.c has the collectives of drover.h, each of which calls comm_start(). */
#pragma once

#include "collectives/comm/backend.h"

/* Checks and starts a call of any collective. Has the same errors as the functions of drover.h.
 * Sets call->factor. */
int comm_start(struct drover_comm *c, struct backend_call *call);

/* Return the backend of a communicator, and the backend's object for this communicator;
 * borrowed. */
const struct backend *comm_backend(const struct drover_comm *c);
struct backend_comm *comm_inner(const struct drover_comm *c);

/* Collects `bytes` bytes of host memory from every rank into `all`, in the order of the ranks.
 * Collective. Waits at most wait_ms until this and all earlier calls are complete. Returns 0 or a
 * negative errno; drover_error() has the text. */
int comm_gather(struct drover_comm *c, const void *mine, size_t bytes, void *all, int64_t wait_ms);
