/* worker - runs trials on this node for a coordinator, as many at once as it has places.
 *
 * While the coordinator is away its trials run on, and what they report waits. Where none comes
 * back in time they are stopped, what was not stored is left for the next coordinator in a file,
 * and the worker ends. */
#ifndef DROVER_WORKER_H
#define DROVER_WORKER_H

#include "common/err.h"
#include "hpo/sweep/share.h"
#include "launcher/guardian.h"

struct worker_config {
    const char *endpoint;
    const char *id;         /* its name for the coordinator, never used before */
    const char *left;       /* file for what could not be said; NULL: it is lost */
    int patience_ms;        /* without a word of a coordinator */
    struct share_want want; /* places 0: as many as fit */
};

/* Runs until the coordinator has no more use for it, it is told to end (SIGTERM, SIGINT: trials go
 * back to the queue; again: at once), or nobody listens. Returns 0.
 *   -ETIMEDOUT  no coordinator was heard for patience_ms
 *   others      nothing was started */
int worker_run(const struct worker_config *c, struct guardian *g, struct err *e);

#endif
