/* lease - one run of a trial on this worker: its directory, its job, its output and reports, and
 * what of these the coordinator has not yet acknowledged.
 *
 *     trial_run_new -> trial_run_start (a place is free) -> reports … -> done -> acknowledged ->
 * trial_run_free
 *
 * Or a place that is held for a trial over several nodes, which another worker runs: that one tells
 * where its ranks here are to come, and nothing is said of them but to it.
 *
 *     trial_run_new -> trial_run_start (a place is free) -> held -> trial_run_join ->
 * trial_run_stop -> trial_run_free
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
#include "hpo/worker/node_slice.h"
#include "hpo/worker/outbox.h"
#include "hpo/worker/trial_paths.h"
#include "launcher/engine/launch.h"

struct trial_run;

struct trial_run_host {
    uv_loop_t *loop;
    struct launch_context *launcher;
    const struct resources *need; /* of a trial; set before the first trial_run_start() */
    const char *prefix;  /* where drover lies: three levels above this program; NULL: unknown */
    const char *cgroups; /* where a control group for it may be made; NULL: nowhere */
    const struct trial_paths *site; /* set before the first trial_run_new() */
    /* There is a new message to be sent: a report, or the end of the lease. */
    outbox_fn *say;
    /* Its place is free: nothing of it runs any more. Its WIRE_DONE is said next; of a place that
     * was held nothing is said any more, and it may be freed. */
    void (*over)(void *arg, struct trial_run *l);
    void *arg;
};

/* `run` is a WIRE_RUN's data, checked by wire_decode(); a reference is taken. NULL: a place to be
 * held. Borrows the host. */
struct trial_run *trial_run_new(const struct trial_run_host *h, int64_t id, json_t *run);
/* Not while it runs. */
void trial_run_free(struct trial_run *l);
AUTO_DEFINE(trial_run, struct trial_run *, trial_run_free)

int64_t trial_run_id(const struct trial_run *l);
/* Whether it is a place that is held. */
bool trial_run_is_reservation(const struct trial_run *l);
/* Where the trial's launcher awaits its ranks here: a WIRE_JOIN_TICKET's data. Once. */
void trial_run_join(struct trial_run *l, const json_t *invite);
/* On a new connection: what is not numbered, and may not have been heard. */
void trial_run_resend(const struct trial_run *l);

/* Runs it on `place`, which is borrowed until it is over. A failure to start is the trial's end and
 * is said as such. */
void trial_run_start(struct trial_run *l, const struct node_slice *place);

/* Ends it in good order; one that was never started is done at once. `preempted`: not the trial's
 * fault, it is to be run again elsewhere. */
void trial_run_stop(struct trial_run *l, bool preempted);
/* Ends it now. */
void trial_run_kill(struct trial_run *l);

bool trial_run_is_started(const struct trial_run *l);
bool trial_run_is_stopping(const struct trial_run *l);
bool trial_run_is_done(const struct trial_run *l);

/* The messages that have not been acknowledged. Borrowed. */
const struct outbox *trial_run_outbox(const struct trial_run *l);
/* All up to `seq` are stored. Returns true when nothing is left to say: it may be freed. */
bool trial_run_acknowledge(struct trial_run *l, int64_t seq);

#endif
