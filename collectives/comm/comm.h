/* comm - below drover.h: for `drover bench`, which needs what a training program does not.
 *
 * comm_calls.c has drover.h's collectives, each of them a call of comm_start(). */
#ifndef DROVER_COMM_H
#define DROVER_COMM_H

#include "collectives/comm/backend.h"

/* Starts any collective, checked as drover.h's functions check theirs. Sets the call's factor. */
int comm_start(struct drover_comm *c, struct backend_call *call);

/* The table and the object below a communicator. Borrowed. */
const struct backend *comm_backend(const struct drover_comm *c);
struct backend_comm *comm_inner(const struct drover_comm *c);

/* Every rank's `bytes` of host memory, in the order of ranks; waits for them and for all that was
 * started before. */
int comm_gather(struct drover_comm *c, const void *mine, size_t bytes, void *all, int64_t wait_ms);

#endif
