/* reservation - a slot that a worker keeps for the ranks of a trial that another worker runs.
 *
 *     reservation_new -> reservation_start (a slot is free) -> WIRE_RESERVED -> reservation_join
 *     (the agent starts) -> reservation_stop -> `done` -> reservation_free
 *
 * The worker that runs the trial reports its results; a reservation sends no numbered message.
 * Everything runs on the loop's thread. */
#pragma once

#include "common/mem.h"
#include "hpo/worker/lease_context.h"
#include "hpo/worker/node_slice.h"
#include "hpo/worker/reservation_state.h"

struct reservation;

/* Borrows the context. `id` is the number of the lease. `done` may free the reservation. */
struct reservation *reservation_new(const struct lease_context *c, int64_t id, lease_done_fn *done,
                                    void *arg);
/* Not while its agent runs. */
void reservation_free(struct reservation *r);
AUTO_DEFINE(reservation, struct reservation *, reservation_free)

enum reservation_state reservation_state(const struct reservation *r);

/* Gives it a slot, which is borrowed until `done`, and reports the slot to the coordinator. */
void reservation_start(struct reservation *r, const struct node_slice *slice);
/* Starts the agent of this node. `ticket` is the data of a WIRE_JOIN_TICKET: where the trial's
 * launcher awaits it. Once the agent was started, further tickets have no effect. */
void reservation_join(struct reservation *r, const json_t *ticket);
/* Sends again what may have been lost with the last connection. */
void reservation_resend(const struct reservation *r);

/* The worker needs the slot. If ranks run in it, the coordinator must end the trial first. */
void reservation_preempt(struct reservation *r);
/* The trial has ended: kills what is left of it here. */
void reservation_stop(struct reservation *r);
