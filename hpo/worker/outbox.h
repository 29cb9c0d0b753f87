/* outbox - the numbered messages of a trial run that the coordinator has not acknowledged, in
 * order.
 *
 * A limited number of messages is sent ahead of their acknowledgement and kept in memory. Messages
 * that come after these wait in a file until there is room. So the worker does not grow, and no
 * trial has to wait, if the coordinator hangs or if a trial reports more than it can store. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"
#include "hpo/transport/wire.h"

/* `m` is borrowed during the call; its conn is not set. */
typedef void outbox_fn(void *arg, const struct wire_msg *m);

struct outbox_opts {
    int64_t instance, lease;
    int in_flight_max; /* most messages that are sent and not acknowledged */
    const char *path;  /* the file, created and unlinked when it is needed. If it cannot be written,
                          all messages stay in memory. Copied */
    outbox_fn *send;
    void *arg;
};

struct outbox;
struct outbox *outbox_new(const struct outbox_opts *opts);
void outbox_free(struct outbox *o);
AUTO_DEFINE(outbox, struct outbox *, outbox_free)

/* Sends a message, at once or when there is room. Takes the reference to `data`. */
void outbox_push(struct outbox *o, enum wire_kind kind, json_t *data);
/* All messages up to `seq` are stored: sends the next ones. Returns true if nothing is left. */
bool outbox_acknowledge(struct outbox *o, int64_t seq);

/* Calls `fn` with each message that was sent and is not acknowledged. */
void outbox_each_sent(const struct outbox *o, outbox_fn *fn, void *arg);
/* Calls `fn` with each message that is not acknowledged. */
void outbox_each(const struct outbox *o, outbox_fn *fn, void *arg);
