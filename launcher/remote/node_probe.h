/* node_probe - the topology of an agent's node, read from the output of `drover machine`.
 *
 * The program `drover-rank` contains neither hwloc's discovery nor GPU libraries, so that it starts
 * quickly. */
#ifndef DROVER_NODE_PROBE_H
#define DROVER_NODE_PROBE_H

#include "common/err.h"
#include "common/strbuf.h"

/* Appends what topo_import() reads. Prints the warnings of `drover machine` to stderr. Blocks for
 * some milliseconds, or 20 if no topology is cached. -EIO             `drover machine` failed: the
 * text is its last line -ENOENT, …       it could not be started */
int node_probe(struct strbuf *out, struct err *e);

#endif
