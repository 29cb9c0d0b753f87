/* job_keys - what the PMIx server is told of a job and its ranks. */
#ifndef DROVER_PMIX_JOB_INFO_H
#define DROVER_PMIX_JOB_INFO_H

#include <pmix_common.h>

#include "common/err.h"

/* For PMIx_server_register_nspace(), of a job on one node; to be freed with PMIX_INFO_FREE().
 * `dir`: for the ranks' files.
 *   -EIO   libpmix refuses the names */
int pmix_job_info_make(pmix_info_t **out, size_t *n, const char *job, int ranks, const char *node,
                       const char *dir, struct err *e);

#endif
