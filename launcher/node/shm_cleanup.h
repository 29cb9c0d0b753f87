/* segments - shared memory that ranks of Open MPI 4 keep in files, named after their job: left
 * behind where neither they nor the PMIx server could remove them.
 *
 * "vader_segment.HOST.UID.JOB.RANK", "osc_sm.HOST.JOB...", "osc_rdma.HOST.JOB...", where JOB is a
 * hash of the job's PMIx namespace (as seen with 4.1.4). Other versions' are removed only by the
 * PMIx server. */
#ifndef DROVER_SHM_CLEANUP_H
#define DROVER_SHM_CLEANUP_H

#include <stdbool.h>

/* Whether this is the name of a file of the namespace. */
bool shm_cleanup_is_of(const char *file, const char *nspace);
/* Removes those that are this user's; none where the directory cannot be read. */
void shm_cleanup_remove(const char *dir, const char *nspace);

#endif
