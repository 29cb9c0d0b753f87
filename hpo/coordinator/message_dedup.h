/* taken - which of the workers' numbered messages (wire.h) the coordinator has taken, by lease.
 *
 * A message is taken once, and only when none before it is missing. A gap means that the connection
 * broke: ZeroMQ sends on the next what still waited, before the worker's hello, but not what was
 * under way. Of what another coordinator took only the records are known: a message that gave none
 * is not in the store, so after a restart each lease may begin with a gap. */
#ifndef DROVER_MESSAGE_DEDUP_H
#define DROVER_MESSAGE_DEDUP_H

#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"

enum message_dedup_verdict {
    MESSAGE_DEDUP_NEW,
    MESSAGE_DEDUP_DUPLICATE, /* it is to be acknowledged, no more; so is what no lease was given for
                              */
    MESSAGE_DEDUP_GAP        /* others should have come before it: it is to be said again */
};

struct message_dedup;
struct message_dedup *message_dedup_new(void);
void message_dedup_free(struct message_dedup *t);
AUTO_DEFINE(message_dedup, struct message_dedup *, message_dedup_free)

/* A lease is given: its messages count from 1. */
void message_dedup_lease(struct message_dedup *t, int64_t lease);
/* A record that is replayed, of message `seq` (0: of none) of a lease. */
void message_dedup_replay(struct message_dedup *t, int64_t lease, int64_t seq);

/* Any numbers from 1. MESSAGE_DEDUP_NEW: from now on it is taken. */
enum message_dedup_verdict message_dedup_check(struct message_dedup *t, int64_t lease, int64_t seq);

#endif
