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
struct launcher;

/* Borrows the loop and the guardian; both must outlive it. The ranks of its jobs inherit this
 * process's environment as it is now. SIGPIPE is ignored from here on; ranks have it as usual. */
int launcher_open(struct launcher **out, uv_loop_t *loop, struct guardian *g, struct err *e);
/* Only with no job left. Leaves nothing active on the loop. */
void launcher_close(struct launcher *l);
AUTO_DEFINE(launcher, struct launcher *, launcher_close)

/* This machine, as launcher_open() found it. Borrowed. */
const struct topo *launcher_topo(const struct launcher *l);

/* rendezvous_join() where the ranks of its local jobs meet, which the first call opens. */
int launcher_meet(struct rendezvous_job **out, struct launcher *l, const struct plan *p,
                  const struct rendezvous_events *ev, void *arg, struct err *e);

/* For who starts something beside its jobs: its engine, and the environment that ranks inherit.
 * Borrowed. */
struct engine *launcher_engine(const struct launcher *l);
char *const *launcher_env(const struct launcher *l);

#endif
