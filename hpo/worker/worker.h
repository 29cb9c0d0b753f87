/* worker - runs trials on this node for a coordinator, as many at once as it has places.
 *
 * Workers come and go: one that is there says what its node has, one that leaves says so, and its
 * trials go elsewhere. While the coordinator is away its trials run on, and what they report waits.
 * Where none comes back in time they are stopped, what was not stored is left for the next
 * coordinator in a file, and the worker ends. */
#ifndef DROVER_WORKER_H
#define DROVER_WORKER_H

#include <stdbool.h>

#include "common/err.h"
#include "hpo/transport/transport_client.h"
#include "hpo/worker/node_slice.h"
#include "hpo/worker/trial_paths.h"
#include "launcher/guardian/guardian.h"

struct worker_config {
    struct transport_client_opts
        to;           /* its id was never used before; beat_ms and renew_ms are not looked at */
    const char *left; /* file for what could not be said; NULL: it is lost */
    int patience_ms;  /* without a word of a coordinator */
    int grace_ms;     /* from being told to end to killing what runs; 0: as the sweep says */
    int idle_ms;      /* ends after so long without a trial; 0: never */
    bool finish;      /* when told to end, what runs may come to its end */
    struct node_slice_opts want; /* what a trial needs is not looked at: the coordinator says it */
    struct trial_paths_opts site;
};

/* Runs until the coordinator has no more use for it, it is told to end (SIGTERM, SIGINT: trials go
 * back to the queue, or first finish; again: at once), it was idle for too long, or nobody listens.
 * Returns 0.
 *   -ETIMEDOUT         no coordinator was heard for patience_ms
 *   -EACCES            the coordinator refuses the key
 *   -EPROTONOSUPPORT   it is another version of drover
 *   others             trials cannot run here; those that were given are back in the queue */
int worker_run(const struct worker_config *c, struct guardian *g, struct err *e);

#endif
