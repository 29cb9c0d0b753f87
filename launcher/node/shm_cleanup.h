/* shm_cleanup - removes shared memory of ranks of Open MPI 4 that neither the ranks nor the PMIx
 * server could remove. Open MPI keeps it in files that are named after the job.
 *
 * The files are "vader_segment.HOST.UID.JOB.RANK", "osc_sm.HOST.JOB...", "osc_rdma.HOST.JOB...",
 * where JOB is a hash of the job's PMIx namespace (as observed with 4.1.4). Only the PMIx server
 * removes files of other versions. */
#pragma once

#include <stdbool.h>

/* Returns true if `file` is the name of such a file of the namespace. */
bool shm_cleanup_is_of(const char *file, const char *nspace);
/* Removes the files of the namespace that belong to this user. Does nothing if the directory cannot
 * be read. */
void shm_cleanup_remove(const char *dir, const char *nspace);
