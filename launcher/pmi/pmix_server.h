/* pmix_server - serves PMIx to the local ranks (libpmix, in this process).
 *
 * One server serves all jobs of a process, each in a namespace named after the job. The server is
 * started when the first rank connects, since most jobs do not need it. libpmix itself answers
 * fences and gets of the ranks of one node. It runs on a thread of its own. Its events are passed
 * to the loop. */
#pragma once

#include <hwloc.h>
#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/plan/job_map.h"
#include "launcher/pmi/rank_events.h"

struct pmix_server;

/* Opens the socket at which ranks connect. A process has one server at a time. The server shares
 * the topology with the ranks, which saves each rank its discovery; the topology must outlive the
 * server. */
int pmix_server_open(struct pmix_server **out, uv_loop_t *loop, hwloc_topology_t topology,
                     struct err *e);
/* Closes the server and removes its files. Call this only after the last job has left. The handles
 * close on the loop's next turn. If a rank was lost while it was connected, libpmix continues to
 * run until this process ends, and this process cannot open another server. */
void pmix_server_close(struct pmix_server *r);
AUTO_DEFINE(pmix_server, struct pmix_server *, pmix_server_close)

struct pmix_server_job;

/* Registers a job. Its ranks may be started when this call has returned on all its nodes. `shm_dir`
 * is the directory in which ranks keep their shared memory. `map` and `shm_dir` are needed only
 * during the call. */
int pmix_server_join(struct pmix_server_job **out, struct pmix_server *r, const struct job_map *map,
                     const char *shm_dir, const struct rank_events *ev, void *arg, struct err *e);
/* Handles a message from the servers of the other nodes (exchange_events.deliver). `job` is a
 * struct pmix_server_job. */
void pmix_server_deliver(void *job, const struct exchange_message *m);
/* Returns the variables with which the job's ranks find the server, without PMIX_RANK. Borrowed. */
char *const *pmix_server_env(const struct pmix_server_job *j);
/* Emits all pending events of the job now, so that they precede the end of a rank. */
void pmix_server_drain(struct pmix_server_job *j);
/* Removes the job. No event follows. */
void pmix_server_leave(struct pmix_server_job *j);
AUTO_DEFINE(pmix_server_job, struct pmix_server_job *, pmix_server_leave)
