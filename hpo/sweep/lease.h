/* lease - one run of a trial on this worker: its directory, its job, its output and reports, and
 * what of these the coordinator has not yet acknowledged.
 *
 *     lease_new -> lease_start (a place is free) -> reports … -> done -> acknowledged -> lease_free
 *
 * Everything is on the loop's thread, but for the copying of checkpoints. */
#ifndef DROVER_LEASE_H
#define DROVER_LEASE_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/sweep/share.h"
#include "hpo/sweep/site.h"
#include "hpo/sweep/wire.h"
#include "launcher/launch.h"

struct lease;

struct lease_host {
    uv_loop_t *loop;
    struct launcher *launcher;
    const struct site *site; /* set before the first lease_new() */
    /* There is a new message to be sent: a report, or the end of the lease. */
    void (*say)(void *arg, struct lease *l, const struct wire_msg *m);
    /* Its place is free: nothing of it runs any more. Comes after its WIRE_DONE was said. */
    void (*over)(void *arg, struct lease *l);
    void *arg;
};

/* `run` is a WIRE_RUN's data, checked by wire_decode(); a reference is taken. Borrows the host. */
struct lease *lease_new(const struct lease_host *h, int64_t id, json_t *run);
/* Not while it runs. */
void lease_free(struct lease *l);
AUTO_DEFINE(lease, struct lease *, lease_free)

int64_t lease_id(const struct lease *l);

/* Runs it on `place`, which is borrowed until it is over. A failure to start is the trial's end and
 * is said as such. */
void lease_start(struct lease *l, const struct share *place);

/* Ends it in good order; one that was never started is done at once. `preempted`: not the trial's
 * fault, it is to be run again elsewhere. */
void lease_stop(struct lease *l, bool preempted);
/* Ends it now. */
void lease_kill(struct lease *l);

bool lease_started(const struct lease *l);
bool lease_over(const struct lease *l);

/* The messages that have not been acknowledged, oldest first. `fn` gets them with conn 0. */
void lease_unacknowledged(const struct lease *l, void (*fn)(void *arg, const struct wire_msg *m),
                          void *arg);
/* All up to `seq` are stored. Returns true when nothing is left to say: it may be freed. */
bool lease_acknowledge(struct lease *l, int64_t seq);

#endif
