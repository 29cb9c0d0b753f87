/* commit_batch - the records and effects of one transaction: what the coordinator sends to workers
 * and shows to people once the transaction is on the disk.
 *
 * It keeps lists and performs nothing. A recipient gets each message once per batch: a worker that
 * sends much has little to read. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/mem.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/transport/wire.h"

/* A message that is sent after the commit. */
struct commit_batch_effect {
    enum wire_kind kind; /* WIRE_RUN, WIRE_RESERVE, WIRE_STOP, WIRE_KILL, WIRE_TEST, WIRE_ACK,
                            WIRE_RECONNECT */
    char worker[WIRE_WORKER_MAX + 1];
    int trial;
    int64_t lease, seq;
    json_t *params, *peers; /* owned; NULL: none */
};

/* A record, for observers. */
struct commit_batch_record {
    enum scheduler_record_kind kind;
    int trial;
};

struct commit_batch { /* zeroes are an empty batch; others read the lists, which are in order */
    struct commit_batch_effect *effects;
    size_t effect_count, effect_cap;
    size_t ack_count; /* of the effects: acknowledgements, which may wait for further messages */
    size_t *table; /* hash table of 2 * effect_cap entries: indexes in `effects` plus 1; 0: free */
    struct commit_batch_record *records;
    size_t record_count;
};

void commit_batch_free(struct commit_batch *b);

/* Asks the worker for a new connection, on which it sends all that is not acknowledged. */
void commit_batch_request_reconnect(struct commit_batch *b, const char *worker);
/* Acknowledges the lease's messages up to `seq`: one message, with the highest number. */
void commit_batch_ack(struct commit_batch *b, const char *worker, int64_t lease, int64_t seq);
/* Any action but SCHEDULER_ACT_HEALTH, SCHEDULER_ACT_NOTICE and SCHEDULER_ACT_END. */
void commit_batch_add_action(struct commit_batch *b, const struct scheduler_action *a);
void commit_batch_record(struct commit_batch *b, const struct scheduler_record *r);

/* Removes all: the next batch begins. */
void commit_batch_clear(struct commit_batch *b);
