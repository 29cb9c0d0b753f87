/* top_nodes - several nodes for `drover top`: each runs `drover top --json` as a job of its own,
 * through the engine that `drover run` would use, and prints a line per interval. A node that does
 * not answer is shown as such, is started again, and does not delay the others. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/plan/hosts.h"
#include "launcher/top/top_node.h"

struct top_nodes;

/* Starts the nodes. Call this before the process has a second thread. Borrows the loop and the
 * hosts. A node whose last line is older than `late_ms` does not answer. */
int top_nodes_open(struct top_nodes **out, uv_loop_t *loop, const struct hosts *hosts,
                   double interval_s, int late_ms, struct err *e);
/* Ends what the nodes run, runs the loop until that is done, and frees `n`. */
void top_nodes_close(struct top_nodes *n);
AUTO_DEFINE(top_nodes, struct top_nodes *, top_nodes_close)

int top_nodes_count(const struct top_nodes *n);
/* Returns the nodes in the order of the host list. Borrowed until the next call, or until the loop
 * runs. */
const struct top_node *top_nodes_read(struct top_nodes *n);
/* Counts the lines and ends of all nodes: another number means that something has changed. */
int64_t top_nodes_changes(const struct top_nodes *n);
/* Returns true if each node has answered or failed. */
bool top_nodes_complete(const struct top_nodes *n);
