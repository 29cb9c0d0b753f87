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

enum taken_verdict {
    TAKEN_NEW,
    TAKEN_BEFORE, /* it is to be acknowledged, no more; so is what no lease was given for */
    TAKEN_GAP     /* others should have come before it: it is to be said again */
};

struct taken;
struct taken *taken_new(void);
void taken_free(struct taken *t);
AUTO_DEFINE(taken, struct taken *, taken_free)

/* A lease is given: its messages count from 1. */
void taken_lease(struct taken *t, int64_t lease);
/* A record that is replayed, of message `seq` (0: of none) of a lease. */
void taken_replay(struct taken *t, int64_t lease, int64_t seq);

/* Any numbers from 1. TAKEN_NEW: from now on it is taken. */
enum taken_verdict taken_message(struct taken *t, int64_t lease, int64_t seq);

#endif
