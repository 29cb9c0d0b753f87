/* locality - where a process is bound, as Open MPI and PMIx write it:
 * "NM0:SK0:L30:L20-1:CR0-1:HT0-3". Two processes share what is in both of their strings. Without
 * it, Open MPI believes that processes share nothing but their node, so that MPI_Comm_split_type()
 * makes NUMA groups of one rank. */
#pragma once

#include <hwloc.h>

/* Returns the NUMA nodes, packages, L3, L2 and L1 caches, cores and hardware threads that have one
 * of these CPUs: for each type the logical indexes. The caller frees the result. */
char *locality_make(hwloc_topology_t topology, hwloc_const_bitmap_t cpus);
