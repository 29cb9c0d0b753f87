/* trial_run - one execution of a trial on this worker: its directory, its job, its output and
 * reports, and the outbox with the messages that the coordinator has not acknowledged.
 *
 *     trial_run_new -> trial_run_start (a slot is free) -> reports … -> `done` -> acknowledged ->
 *     trial_run_free
 *
 * Everything runs on the loop's thread, except for the copying of checkpoints. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"
#include "hpo/worker/lease_context.h"
#include "hpo/worker/node_slice.h"
#include "hpo/worker/outbox.h"
#include "hpo/worker/trial_run_state.h"

struct trial_run;

/* `id` is the number of the lease, `data` that of a WIRE_RUN, checked by wire_decode(); takes a
 * reference to it. Borrows the context. The WIRE_DONE is sent after `done`. */
struct trial_run *trial_run_new(const struct lease_context *c, int64_t id, json_t *data,
                                lease_done_fn *done, void *arg);
/* Not while its job runs or a checkpoint is copied. */
void trial_run_free(struct trial_run *r);
AUTO_DEFINE(trial_run, struct trial_run *, trial_run_free)

enum trial_run_state trial_run_state(const struct trial_run *r);
/* The number of the trial. */
int trial_run_trial(const struct trial_run *r);
/* The data of its WIRE_DONE (run_result.h), borrowed in `done`. */
const json_t *trial_run_result(const struct trial_run *r);

/* Runs it on `slice`, which is borrowed until `done`. A job that cannot be started ends the run;
 * the result says why. */
void trial_run_start(struct trial_run *r, const struct node_slice *slice);

/* Ends the run with its grace period; a run that was never started is done at once. `preempted`:
 * the trial is not at fault, and the coordinator requeues it. */
void trial_run_stop(struct trial_run *r, bool preempted);
/* Ends the run without a grace period. Has no effect on a run that waits for a slot. */
void trial_run_kill(struct trial_run *r);

/* The messages that are not acknowledged. Borrowed. */
const struct outbox *trial_run_outbox(const struct trial_run *r);
/* Sends the join ticket again, which has no number and may have been lost with the last connection.
 * The caller sends the outbox first. */
void trial_run_resend(const struct trial_run *r);
/* All messages up to `seq` are stored. Returns true if the run is done and nothing is left to send:
 * it may be freed. */
bool trial_run_acknowledge(struct trial_run *r, int64_t seq);
