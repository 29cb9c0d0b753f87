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
