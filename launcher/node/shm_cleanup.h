/* shm_cleanup - removes shared memory that ranks of Open MPI 4 keep in files named after their
 * job, if neither they nor the PMIx server could remove it.
 *
 * The files are "vader_segment.HOST.UID.JOB.RANK", "osc_sm.HOST.JOB...", "osc_rdma.HOST.JOB...",
 * where JOB is a hash of the job's PMIx namespace (as observed with 4.1.4). Only the PMIx server
 * removes files of other versions. */
#ifndef DROVER_SHM_CLEANUP_H
#define DROVER_SHM_CLEANUP_H

#include <stdbool.h>

/* Returns whether a file has the name of such a file of the namespace. */
bool shm_cleanup_is_of(const char *file, const char *nspace);
/* Removes such files of this user; none if the directory cannot be read. */
void shm_cleanup_remove(const char *dir, const char *nspace);

#endif
