/* pmix_server - serves PMIx to the local ranks (libpmix, in this process).
 *
 * One server serves all jobs of a process, each in a namespace named after the job. It is started
 * when the first rank connects: most jobs do not need it. libpmix answers fences and gets of one
 * node by itself. It has a thread of its own, whose events are passed to the loop. */
#ifndef DROVER_PMIX_SERVER_H
#define DROVER_PMIX_SERVER_H

#include <hwloc.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/plan/plan.h"

struct pmix_server;

/* Opens the socket at which ranks connect. A process has one server at a time. The server shares
 * the topology with the ranks, which saves each rank its discovery; the topology must outlive the
 * server. */
int pmix_server_open(struct pmix_server **out, uv_loop_t *loop, hwloc_topology_t topology,
                     struct err *e);
/* Closes the server and removes its files. Only after its last job has left. Its handles close on
 * the loop's next turn. If a rank was lost while it was connected, libpmix runs on until the
 * process ends, and the process can open no other server. */
void pmix_server_close(struct pmix_server *r);
AUTO_DEFINE(pmix_server, struct pmix_server *, pmix_server_close)

struct pmix_server_job;

/* From the loop. */
struct pmix_server_events {
    /* The rank has connected: it is in MPI_Init or PMIx_Init. */
    void (*joined)(void *arg, int rank);
    /* The rank has called MPI_Finalize or PMIx_Finalize. */
    void (*finalized)(void *arg, int rank);
    /* The rank has called MPI_Abort(code) or PMIx_Abort(). */
    void (*aborted)(void *arg, int rank, int code);
    /* The rank has requested further ranks (MPI_Comm_spawn), and was refused. */
    void (*spawns)(void *arg, int rank);
};

/* Registers the job, whose ranks may be started from then on. The plan is needed only during the
 * call. */
int pmix_server_join(struct pmix_server_job **out, struct pmix_server *r, const struct plan *p,
                     const struct pmix_server_events *ev, void *arg, struct err *e);
/* Returns the environment by which the job's ranks find the server, without PMIX_RANK. Borrowed. */
char *const *pmix_server_env(const struct pmix_server_job *j);
/* Emits at once what the ranks have done so far, so that it precedes the end of a rank. */
void pmix_server_drain(struct pmix_server_job *j);
/* Removes the job. No event follows. */
void pmix_server_leave(struct pmix_server_job *j);
AUTO_DEFINE(pmix_server_job, struct pmix_server_job *, pmix_server_leave)

#endif
