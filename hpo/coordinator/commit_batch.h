/* turn - what one commit of the coordinator stands for: what is said to workers and shown to people
 * once it is on the disk.
 *
 * Pure: it keeps lists. Nobody is told the same twice in a turn, however often there is cause: one
 * that says much has little to read. */
#ifndef DROVER_COMMIT_BATCH_H
#define DROVER_COMMIT_BATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/mem.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/transport/wire.h"

/* An effect that waits for the commit. */
struct commit_batch_effect {
    enum wire_kind
        kind; /* WIRE_RUN, WIRE_RESERVE, WIRE_STOP, WIRE_KILL, WIRE_ACK, WIRE_RECONNECT */
    char worker[WIRE_WORKER_MAX + 1];
    int trial;
    int64_t lease, seq;
    json_t *params, *others; /* owned; NULL: none */
};

/* A record, for those who watch. */
struct commit_batch_record {
    enum scheduler_record_kind kind;
    int trial;
};

struct commit_batch;
struct commit_batch *commit_batch_new(void);
void commit_batch_free(struct commit_batch *t);
AUTO_DEFINE(commit_batch, struct commit_batch *, commit_batch_free)

/* `worker` is asked to say all again. */
void commit_batch_request_reconnect(struct commit_batch *t, const char *worker);
/* `worker` is told that the lease's messages up to `seq` are stored: once, with the highest. */
void commit_batch_ack(struct commit_batch *t, const char *worker, int64_t lease, int64_t seq);
/* All but SCHEDULER_ACT_END. */
void commit_batch_add_action(struct commit_batch *t, const struct scheduler_action *a);
void commit_batch_record(struct commit_batch *t, const struct scheduler_record *r);

/* Whether all that follows are acknowledgements: they may wait for more. */
bool commit_batch_can_wait(const struct commit_batch *t);

/* In order; borrowed until commit_batch_clear() or the next addition. NULL after the last. */
const struct commit_batch_effect *commit_batch_effect_at(const struct commit_batch *t, size_t i);
const struct commit_batch_record *commit_batch_record_at(const struct commit_batch *t, size_t i);
/* The next turn begins. */
void commit_batch_clear(struct commit_batch *t);

#endif
