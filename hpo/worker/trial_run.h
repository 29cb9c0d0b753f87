/* lease - one run of a trial on this worker: its directory, its job, its output and reports, and
 * what of these the coordinator has not yet acknowledged.
 *
 *     lease_new -> lease_start (a place is free) -> reports … -> done -> acknowledged -> lease_free
 *
 * Or a place that is held for a trial over several nodes, which another worker runs: that one tells
 * where its ranks here are to come, and nothing is said of them but to it.
 *
 *     lease_new -> lease_start (a place is free) -> held -> lease_invite -> lease_stop ->
 * lease_free
 *
 * Everything is on the loop's thread, but for the copying of checkpoints. */
#ifndef DROVER_TRIAL_RUN_H
#define DROVER_TRIAL_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "hpo/transport/wire.h"
#include "hpo/worker/node_slices.h"
#include "hpo/worker/outbox.h"
#include "hpo/worker/trial_paths.h"
#include "launcher/engine/launch.h"

struct lease;

struct lease_host {
    uv_loop_t *loop;
    struct launcher *launcher;
    const struct resources *need; /* of a trial; set before the first lease_start() */
    const char *prefix;      /* where drover lies: three levels above this program; NULL: unknown */
    const char *cgroups;     /* where a control group for it may be made; NULL: nowhere */
    const struct site *site; /* set before the first lease_new() */
    /* There is a new message to be sent: a report, or the end of the lease. */
    unsaid_fn *say;
    /* Its place is free: nothing of it runs any more. Its WIRE_DONE is said next; of a place that
     * was held nothing is said any more, and it may be freed. */
    void (*over)(void *arg, struct lease *l);
    void *arg;
};

/* `run` is a WIRE_RUN's data, checked by wire_decode(); a reference is taken. NULL: a place to be
 * held. Borrows the host. */
struct lease *lease_new(const struct lease_host *h, int64_t id, json_t *run);
/* Not while it runs. */
void lease_free(struct lease *l);
AUTO_DEFINE(lease, struct lease *, lease_free)

int64_t lease_id(const struct lease *l);
/* Whether it is a place that is held. */
bool lease_holds(const struct lease *l);
/* Where the trial's launcher awaits its ranks here: a WIRE_INVITE's data. Once. */
void lease_invite(struct lease *l, const json_t *invite);
/* On a new connection: what is not numbered, and may not have been heard. */
void lease_say_again(const struct lease *l);

/* Runs it on `place`, which is borrowed until it is over. A failure to start is the trial's end and
 * is said as such. */
void lease_start(struct lease *l, const struct share *place);

/* Ends it in good order; one that was never started is done at once. `preempted`: not the trial's
 * fault, it is to be run again elsewhere. */
void lease_stop(struct lease *l, bool preempted);
/* Ends it now. */
void lease_kill(struct lease *l);

bool lease_started(const struct lease *l);
bool lease_told_to_stop(const struct lease *l);
bool lease_over(const struct lease *l);

/* The messages that have not been acknowledged. Borrowed. */
const struct unsaid *lease_unsaid(const struct lease *l);
/* All up to `seq` are stored. Returns true when nothing is left to say: it may be freed. */
bool lease_acknowledge(struct lease *l, int64_t seq);

#endif
