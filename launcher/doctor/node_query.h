/* node_query - runs a command of drover once on each of several nodes, and collects its output. */
#ifndef DROVER_NODE_QUERY_H
#define DROVER_NODE_QUERY_H

#include "common/err.h"
#include "launcher/hosts/hosts.h"

/* Runs `drover ARGV...` on each host, through the engine that `drover run` would use. `*out` gets
 * one text per host, what it has written to stdout; the caller frees it with strv_free(). stderr is
 * shown. Call this before the process has a second thread.
 *   -EIO  the command failed on a node, or a node does not answer; the text names it */
int node_query(char ***out, const struct hosts *hosts, const char *const *argv, struct err *e);

#endif
