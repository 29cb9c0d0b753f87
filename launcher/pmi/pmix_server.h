/* rendezvous - the PMIx server that the ranks find each other through (libpmix, in this process).
 *
 * One server serves all jobs of a process, a namespace each, named after the job. It is started
 * when the first rank comes: most jobs have no use for it. Fences and gets of one node are answered
 * inside libpmix. It has a thread of its own, whose news come through the loop. */
#ifndef DROVER_PMIX_SERVER_H
#define DROVER_PMIX_SERVER_H

#include <hwloc.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/plan/plan.h"

struct pmix_server;

/* Opens its lobby; ranks that come find it as soon as the loop turns. Only one at a time in a
 * process. The topology is handed to the server and shared with the ranks, which saves each of them
 * its discovery; it must outlive the server. */
int pmix_server_open(struct pmix_server **out, uv_loop_t *loop, hwloc_topology_t topology,
                     struct err *e);
/* Only with no job left. Removes what it kept in the file system; its handle closes on the loop's
 * next turn. Where a rank was lost inside, libpmix runs on until the process ends, which can open
 * no other server then. */
void pmix_server_close(struct pmix_server *r);
AUTO_DEFINE(pmix_server, struct pmix_server *, pmix_server_close)

struct pmix_server_job;

/* From the loop. */
struct pmix_server_events {
    /* The rank has attached to the server: MPI_Init, or PMIx_Init, has come so far. */
    void (*joined)(void *arg, int rank);
    /* It has called MPI_Abort(code) or PMIx_Abort(). */
    void (*aborted)(void *arg, int rank, int code);
    /* It has asked for further ranks (MPI_Comm_spawn), and was refused. */
    void (*spawns)(void *arg, int rank);
};

/* Has the server know the job: all its ranks may be started from then on. The plan is needed only
 * during the call. */
int pmix_server_join(struct pmix_server_job **out, struct pmix_server *r, const struct plan *p,
                     const struct pmix_server_events *ev, void *arg, struct err *e);
/* What all its ranks need in their environment to find the server, beside their number in
 * PMIX_RANK. Borrowed. */
char *const *pmix_server_env(const struct pmix_server_job *j);
/* No event follows. */
void pmix_server_leave(struct pmix_server_job *j);
AUTO_DEFINE(pmix_server_job, struct pmix_server_job *, pmix_server_leave)

#endif
