/* topo_known - hwloc's topologies of other machines. Machines that are equal are parsed once. Their
 * names, addresses and serial numbers may differ, and the memory that the kernel has kept. */
#pragma once

#include <hwloc.h>

#include "common/mem.h"

/* A topology with its users, of which the last one destroys it. */
struct topo_known_hwloc;
/* Takes `hw`. The result has one user. */
struct topo_known_hwloc *topo_known_hwloc_new(hwloc_topology_t hw);
hwloc_topology_t topo_known_hwloc_get(const struct topo_known_hwloc *h);
/* Removes a user; accepts NULL. */
void topo_known_hwloc_free(struct topo_known_hwloc *h);

/* The last few topologies that were parsed. */
struct topo_known;
struct topo_known *topo_known_new(void);
void topo_known_free(struct topo_known *k);
AUTO_DEFINE(topo_known, struct topo_known *, topo_known_free)

/* Returns the topology of a machine that is equal to that of the XML, with one more user, which is
 * the caller; NULL: none is known. What is a machine's own is that of the first one. */
struct topo_known_hwloc *topo_known_find(struct topo_known *k, const char *xml, size_t len);
/* Adds the topology that was parsed from the XML. */
void topo_known_add(struct topo_known *k, const char *xml, size_t len, struct topo_known_hwloc *h);
