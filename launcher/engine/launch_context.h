/* launch_context - what all jobs of a process share: the loop, the guardian, the topology of this
 * node, the PMIx server, and the environment that ranks inherit. */
#pragma once

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/guardian/guardian.h"
#include "launcher/node/topo.h"
#include "launcher/plan/plan.h"
#include "launcher/pmi/pmix_server.h"

struct engine;

/* Others only read these. */
struct launch_context {
    struct topo *topo; /* of this node, as of launch_context_open() */
    struct engine *engine;
    struct pmix_server *pmix; /* NULL until a job needs it */
    char **env;               /* the environment of this process, before libpmix adds variables */
};

/* Opens the context. Borrows the loop and the guardian; both must outlive the context. Ranks
 * inherit the environment that this process has now. This process ignores SIGPIPE from now on; the
 * ranks do not. */
int launch_context_open(struct launch_context **out, uv_loop_t *loop, struct guardian *g,
                        struct err *e);
/* Closes the context. Call this only when no job is left. No handle stays active on the loop. */
void launch_context_close(struct launch_context *l);
AUTO_DEFINE(launch_context, struct launch_context *, launch_context_close)

/* Sets s->remote_engine to "ssh" if `env` has no mpirun in PATH. Does nothing if the spec has a
 * remote engine, or needs none. */
void launch_context_choose_engine(struct launch_spec *s, char *const *env);

/* Makes the plan of a job on the nodes that `s` names, as plan_make() does, and logs the engine
 * that starts the ranks on other nodes. */
int launch_context_plan(struct plan **out, const struct launch_context *l,
                        const struct launch_spec *s, struct err *e);

/* Calls pmix_server_join() for a job. The first call also opens the PMIx server. `map` and `p`, the
 * plan of this node's ranks, are needed only during the call. */
int launch_context_join_pmix(struct pmix_server_job **out, struct launch_context *l,
                             const struct job_map *map, const struct plan *p,
                             const struct rank_events *ev, void *arg, struct err *e);
