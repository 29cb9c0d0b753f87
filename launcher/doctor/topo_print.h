/* topo_print - the topology of a node for `drover topo`: a tree of NUMA nodes, PCI bridges and
 * devices, the matrix of `nvidia-smi topo -m`, and what each GPU should use. */
#pragma once

#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/node/topo.h"

/* Appends tree and matrix as text, without the node's name: identical nodes have the same text. */
void topo_print(struct strbuf *out, const struct topo *t);

/* Returns the same as JSON, with the UUIDs, and without the node's name: {"cpus", "cores",
 * "numa": [{"node", "cpus", "memory_bytes"}], "gpus": [{"index", "name", "uuid", "bus_id", "numa",
 * "cpus", "nic"}], "nics": [{"name", "bus_id", "rdma", "numa"}], "paths": [["X", "NV18", …], …]}.
 * "paths" has a row and a column per GPU, then per interface. The caller owns it. */
json_t *topo_print_json(const struct topo *t);
