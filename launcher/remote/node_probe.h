/* node_probe - gets the topology of an agent's node from the output of `drover machine`.
 *
 * The program `drover-rank` contains neither hwloc's discovery nor GPU libraries, so that it starts
 * quickly. */
#ifndef DROVER_NODE_PROBE_H
#define DROVER_NODE_PROBE_H

#include "common/err.h"
#include "common/strbuf.h"

/* The part of a job on this node, for the checks before it starts (doctor/preflight.h). */
struct node_probe_checks {
    int ranks;
    const char *gpus; /* NULL: all */
};

/* Appends the topology in the form that topo_import() reads; with `checks`, a newline and the
 * results of the checks follow. Prints the warnings of `drover machine` to stderr. Blocks for a few
 * milliseconds, or for 20 ms if no topology is cached. -EIO        `drover machine` failed; the
 * text is its last line -ENOENT, …  `drover machine` could not be started */
int node_probe(struct strbuf *out, const struct node_probe_checks *checks, struct err *e);

#endif
