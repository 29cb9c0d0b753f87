/* machine - what the machine is that a `drover rank` runs on. The program `drover-rank` has no
 * hwloc and no GPU libraries in it, so that it starts quickly: it asks `drover machine`. */
#ifndef DROVER_NODE_PROBE_H
#define DROVER_NODE_PROBE_H

#include "common/err.h"
#include "common/strbuf.h"

/* What topo_import() reads, as `drover machine` prints it; what that warns of goes to stderr. Takes
 * some milliseconds, 20 where nothing is cached.
 *   -EIO  it failed: the text has its last words
 *   -ENOENT and the like  it could not be started */
int node_probe(struct strbuf *out, struct err *e);

#endif
