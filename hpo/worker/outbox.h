/* unsaid - what a lease has to say and the coordinator has not yet acknowledged, in order.
 *
 * So many messages are said ahead of their acknowledgement and kept in memory; what comes while
 * they are out waits in a file until there is room for it. So neither a coordinator that hangs nor
 * a trial that reports more than it can take makes the worker grow, and no trial has to wait. */
#ifndef DROVER_OUTBOX_H
#define DROVER_OUTBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "common/mem.h"
#include "hpo/transport/wire.h"

/* `m` is borrowed during the call; its conn is not set. */
typedef void outbox_fn(void *arg, const struct wire_msg *m);

struct outbox_opts {
    int64_t lease;
    int most;         /* messages that are said ahead */
    const char *path; /* the file, made when it is needed and removed at once; where it cannot be
                         written all stays in memory. Copied */
    outbox_fn *say;
    void *arg;
};

struct outbox;
struct outbox *outbox_new(const struct outbox_opts *ask);
void outbox_free(struct outbox *u);
AUTO_DEFINE(outbox, struct outbox *, outbox_free)

/* Says it, now or when its turn has come. Takes the reference to `data`. */
void outbox_push(struct outbox *u, enum wire_kind kind, json_t *data);
/* All up to `seq` are stored: says the next ones. Returns true when nothing is left. */
bool outbox_acknowledge(struct outbox *u, int64_t seq);

/* What has been said and not acknowledged. */
void outbox_each_sent(const struct outbox *u, outbox_fn *fn, void *arg);
/* All that is not acknowledged. */
void outbox_each(const struct outbox *u, outbox_fn *fn, void *arg);

#endif
