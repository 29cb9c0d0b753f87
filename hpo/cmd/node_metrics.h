/* node_metrics - the GPUs of this node that trials may use, as metrics. */
#pragma once

#include "common/err.h"
#include "common/mem.h"
#include "launcher/metrics/metrics_text.h"

struct node_metrics;

/* Starts to sample the GPUs of the list ("0,2"; NULL: all that CUDA_VISIBLE_DEVICES shows), of
 * which there may be none. -EINVAL  the list names a GPU that this node does not have */
int node_metrics_open(struct node_metrics **out, const char *gpus, struct err *e);
void node_metrics_close(struct node_metrics *n);
AUTO_DEFINE(node_metrics, struct node_metrics *, node_metrics_close)

/* Adds the latest samples. `n` may be NULL. */
void node_metrics_add(const struct node_metrics *n, struct metrics_text *t);
