/* sweep_metrics - the metrics of a running sweep, and of the GPUs of its host. */
#pragma once

#include "common/err.h"
#include "hpo/coordinator/coordinator.h"
#include "hpo/scheduler/scheduler.h"
#include "hpo/spec/spec.h"

struct sweep_metrics;

/* Listens; errors are those of metrics_server_open(). `runs_trials`: this host has a worker, whose
 * GPUs are sampled. */
int sweep_metrics_open(struct sweep_metrics **out, const char *address, bool runs_trials,
                       struct err *e);
/* In these functions `m` may be NULL. */
/* Starts to write values on the coordinator's loop. Borrows the name and the spec. */
void sweep_metrics_start(struct sweep_metrics *m, const char *sweep, const struct spec *spec,
                         const struct coordinator_view *view);
/* Call it before coordinator_close(). */
void sweep_metrics_close(struct sweep_metrics *m);
AUTO_DEFINE(sweep_metrics, struct sweep_metrics *, sweep_metrics_close)

const char *sweep_metrics_url(const struct sweep_metrics *m);
/* A record was stored, of a trial or (-1) of the sweep. */
void sweep_metrics_stored(struct sweep_metrics *m, const struct scheduler *s,
                          enum scheduler_record_kind kind, int trial);
