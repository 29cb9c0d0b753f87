/* lease - the leases of a worker in order of arrival: trial runs, and reservations for trials
 * that other workers run. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "common/mem.h"
#include "hpo/worker/reservation.h"
#include "hpo/worker/trial_run.h"

struct lease {
    struct lease_list *list;
    int64_t id;
    struct trial_run *run; /* NULL: a reservation */
    struct reservation *reservation;
};

struct lease_list { /* others read the fields */
    const struct lease_context *context;
    /* A lease, the argument, is done and its slot is free. The callee removes it if it is a
     * reservation: nothing more is sent or received for it. */
    lease_done_fn *done;
    struct lease **at;
    size_t count;
};

/* Not while jobs or agents run. */
void lease_list_clear(struct lease_list *list);

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

/* Preempts the leases, the newest first; with `only_waiting`, the leases that wait for a slot. */
void lease_list_preempt(struct lease_list *list, bool only_waiting);
void lease_list_kill_all(struct lease_list *list);

/* Returns the numbers of the leases, oldest first: a JSON array. New reference. */
json_t *lease_list_ids(const struct lease_list *list);
/* Resends the messages that are not acknowledged, after a new connection has opened. */
void lease_list_resend(const struct lease_list *list);
/* Calls `fn` with each message that is not acknowledged. */
void lease_list_each_unacknowledged(const struct lease_list *list, outbox_fn *fn, void *arg);

/* The borrowed `slice` is given back with `done`. */
void lease_start(struct lease *l, const struct node_slice *slice);
/* The next three may end the lease at once; a reservation may be freed then. */
/* Ends a lease that is not at fault: the coordinator requeues the trial. */
void lease_preempt(struct lease *l);
void lease_stop(struct lease *l);
void lease_kill(struct lease *l);
