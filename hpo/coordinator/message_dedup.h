/* message_dedup - which numbered messages of workers (wire.h) the coordinator has accepted, per
 * lease.
 *
 * A message is accepted once, and only if no message before it is missing. A gap shows that the
 * connection broke: on the next one ZeroMQ sends what still waited in its queue, before the
 * worker's hello, but not what was on its way. Of messages that another coordinator accepted only
 * the records are known. A message that made no record is not in the store, so after a restart each
 * lease may begin with a gap. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"

enum message_dedup_verdict {
    MESSAGE_DEDUP_NEW,
    MESSAGE_DEDUP_DUPLICATE, /* acknowledge it, nothing else; also for an unknown lease */
    MESSAGE_DEDUP_GAP        /* messages before it are missing: ask for all of them again */
};

struct message_dedup {               /* zeroes: no lease is known */
    struct message_dedup_last *last; /* by lease */
    size_t cap;
};

void message_dedup_clear(struct message_dedup *d);

/* Adds a new lease: its messages count from 1. */
void message_dedup_lease(struct message_dedup *d, int64_t lease);
/* Replays a record that message `seq` of a lease has made; 0: the record is of no message. */
void message_dedup_replay(struct message_dedup *d, int64_t lease, int64_t seq);

/* Both numbers are at least 1. After MESSAGE_DEDUP_NEW the message counts as accepted. */
enum message_dedup_verdict message_dedup_check(struct message_dedup *d, int64_t lease, int64_t seq);
