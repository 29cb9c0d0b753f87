/* pmix_job_info - describes a job and its ranks to libpmix's server. */
#pragma once

#include <hwloc.h>
#include <pmix_common.h>

#include "common/err.h"
#include "launcher/plan/job_map.h"

/* Makes the argument of PMIx_server_register_nspace(). The caller frees it with PMIX_INFO_FREE().
 * `topology` is that of this node; `dir` is the directory in which ranks create files.
 *   -EIO  libpmix rejects the names */
int pmix_job_info_make(pmix_info_t **out, size_t *n, const struct job_map *map,
                       hwloc_topology_t topology, const char *dir, struct err *e);

/* Returns where a process is bound, as Open MPI and PMIx write it:
 * "NM0:SK0:L30:L20-1:CR0-1:HT0-3". These are the NUMA nodes, packages, L3, L2 and L1 caches, cores
 * and hardware threads that have one of these CPUs: for each type the logical indexes. Two
 * processes share what is in both of their strings. Without it, Open MPI believes that processes
 * share nothing but their node, so that MPI_Comm_split_type() makes NUMA groups of one rank. The
 * caller frees the result. */
char *pmix_job_info_locality(hwloc_topology_t topology, hwloc_const_bitmap_t cpus);
