/* lease - the leases of a worker in order of arrival: trial runs, and reservations for trials
 * that other workers run. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/mem.h"
#include "hpo/worker/lease_context.h"
#include "hpo/worker/node_slice.h"

struct lease;
struct lease_list;

/* The lease is done and its slot is free. The callee removes it if it is a reservation: nothing
 * more is sent or received for it. */
typedef void lease_list_done_fn(void *arg, struct lease *l);

/* Borrows the context. */
struct lease_list *lease_list_new(const struct lease_context *c, lease_list_done_fn *done,
                                  void *arg);
/* Not while jobs or agents run. */
void lease_list_free(struct lease_list *list);
AUTO_DEFINE(lease_list, struct lease_list *, lease_list_free)

size_t lease_list_count(const struct lease_list *list);
/* NULL: unknown. Borrowed until it is removed. */
struct lease *lease_list_find(const struct lease_list *list, int64_t id);
/* The oldest that waits for a slot; NULL: none. */
struct lease *lease_list_first_waiting(const struct lease_list *list);
/* How many leases have a slot, or want one, and were not stopped. */
int lease_list_demand(const struct lease_list *list);
/* Every lease is done. */
bool lease_list_all_done(const struct lease_list *list);

/* `data` as trial_run_new(). */
struct lease *lease_list_add_run(struct lease_list *list, int64_t id, json_t *data);
struct lease *lease_list_add_reservation(struct lease_list *list, int64_t id);
/* Frees the lease. Call it only when no job and no agent of the lease run. */
void lease_list_remove(struct lease_list *list, struct lease *l);

/* Preempt all leases, or those that wait for a slot; the newest first. */
void lease_list_preempt_all(struct lease_list *list);
void lease_list_preempt_waiting(struct lease_list *list);
void lease_list_kill_all(struct lease_list *list);

/* Returns the numbers of the leases, oldest first: a JSON array. New reference. */
json_t *lease_list_ids(const struct lease_list *list);
/* Resends the messages that are not acknowledged, after a new connection has opened. */
void lease_list_resend(const struct lease_list *list);
/* Calls `fn` with each message that is not acknowledged. */
void lease_list_each_unacknowledged(const struct lease_list *list, outbox_fn *fn, void *arg);

bool lease_is_reservation(const struct lease *l);
/* Return the trial's number, and trial_run_result(). Not for a reservation. */
int lease_trial(const struct lease *l);
const json_t *lease_result(const struct lease *l);
/* The borrowed `slice` is given back with `done`. */
void lease_start(struct lease *l, const struct node_slice *slice);
/* The next three may end the lease at once; a reservation may be freed then. */
/* Ends a lease that is not at fault: the coordinator requeues the trial. */
void lease_preempt(struct lease *l);
void lease_stop(struct lease *l);
void lease_kill(struct lease *l);
/* Calls reservation_join() with `ticket`. Has no effect on a trial run. */
void lease_join(struct lease *l, const json_t *ticket);
/* Calls trial_run_acknowledge(). Returns false for a reservation. */
bool lease_acknowledge(struct lease *l, int64_t seq);
