/* worker_metrics - the metrics of a worker, and of the GPUs that its trials may use. */
#pragma once

#include "common/err.h"
#include "hpo/worker/worker.h"

struct worker_metrics;

/* Listens; errors are those of metrics_server_open(). `gpus`: the worker's GPUs (NULL: all that are
 * visible). Borrows the worker's id. */
int worker_metrics_open(struct worker_metrics **out, const char *address, const char *id,
                        const char *gpus, struct err *e);
void worker_metrics_close(struct worker_metrics *m);
AUTO_DEFINE(worker_metrics, struct worker_metrics *, worker_metrics_close)

const char *worker_metrics_url(const struct worker_metrics *m);
/* Call it with each notice of the worker. `m` may be NULL. */
void worker_metrics_notice(struct worker_metrics *m, const struct worker_notice *n);
