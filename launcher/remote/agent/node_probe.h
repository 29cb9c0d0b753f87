/* node_probe - gets the topology of an agent's node, and what the checks before a job find there,
 * from the output of `drover machine`.
 *
 * The checks load GPU libraries, which can hang or crash. The agent must not. */
#pragma once

#include "common/err.h"
#include "common/strbuf.h"

/* The part of a job on this node, for the checks before it starts (doctor/preflight.h). */
struct node_probe_checks {
    int ranks;
    const char *gpus; /* NULL: all */
};

/* Appends the topology in the form that topo_import() reads, a newline, and the results of the
 * checks. Prints the warnings of `drover machine` to stderr. Blocks until the checks have ended.
 *   -EIO        `drover machine` failed; the text is its last line
 *   -ENOENT, …  `drover machine` could not be started */
int node_probe(struct strbuf *out, const struct node_probe_checks *checks, struct err *e);
