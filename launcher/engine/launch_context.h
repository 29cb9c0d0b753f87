/* launcher - what all jobs of a process share: its loop, its guardian, this machine as it is, and
 * the environment that ranks inherit. launch.h has the jobs. */
#ifndef DROVER_LAUNCH_CONTEXT_H
#define DROVER_LAUNCH_CONTEXT_H

#include <uv.h>

#include "common/err.h"
#include "common/mem.h"
#include "launcher/guardian/guardian.h"
#include "launcher/node/topo.h"
#include "launcher/pmi/pmix_server.h"

struct engine;
struct launch_context;

/* Borrows the loop and the guardian; both must outlive it. The ranks of its jobs inherit this
 * process's environment as it is now. SIGPIPE is ignored from here on; ranks have it as usual. */
int launch_context_open(struct launch_context **out, uv_loop_t *loop, struct guardian *g,
                        struct err *e);
/* Only with no job left. Leaves nothing active on the loop. */
void launch_context_close(struct launch_context *l);
AUTO_DEFINE(launch_context, struct launch_context *, launch_context_close)

/* This machine, as launch_context_open() found it. Borrowed. */
const struct topo *launch_context_topo(const struct launch_context *l);

/* pmix_server_join() where the ranks of its local jobs meet, which the first call opens. */
int launch_context_join_pmix(struct pmix_server_job **out, struct launch_context *l,
                             const struct plan *p, const struct pmix_server_events *ev, void *arg,
                             struct err *e);

/* For who starts something beside its jobs: its engine, and the environment that ranks inherit.
 * Borrowed. */
struct engine *launch_context_engine(const struct launch_context *l);
char *const *launch_context_env(const struct launch_context *l);

#endif
