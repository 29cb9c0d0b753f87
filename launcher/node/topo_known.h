/* topo_known - hwloc's topologies of other machines. Machines that are equal are parsed once. Their
 * names, addresses and serial numbers may differ, and the memory that the kernel has kept. */
#pragma once

#include <hwloc.h>

#include "common/mem.h"

/* Removes a user of a topology; the last one destroys it. A new topology has one user. Accepts
 * NULL. */
void topo_known_release(hwloc_topology_t hw);

/* The last few topologies that were parsed. */
struct topo_known;
struct topo_known *topo_known_new(void);
void topo_known_free(struct topo_known *k);
AUTO_DEFINE(topo_known, struct topo_known *, topo_known_free)

/* Returns the topology of a machine that is equal to that of the XML, with one more user, which is
 * the caller; NULL: none is known. What is a machine's own is that of the first one. */
hwloc_topology_t topo_known_find(struct topo_known *k, const char *xml, size_t len);
/* Adds the topology that was parsed from the XML. */
void topo_known_add(struct topo_known *k, const char *xml, size_t len, hwloc_topology_t hw);
