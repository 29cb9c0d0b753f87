/* agent_spawn - starts agents on this node, for a job whose launcher may be on another node.
 *
 * The launcher's process gets the join ticket from launch_join_ticket(). The agents exit when the
 * launcher releases them or disconnects, or when they are killed. */
#ifndef DROVER_AGENT_SPAWN_H
#define DROVER_AGENT_SPAWN_H

#include "common/err.h"
#include "common/mem.h"
#include "launcher/engine/launch.h"

struct agent_spawn_opts {
    const char *control, *token; /* the join ticket */
    int first_rank, count;       /* the ranks first_rank … first_rank + count - 1 of the job */
    const char *cgroup;          /* as launch_spec.cgroup */
};

struct agent_spawn;

/* Starts the agents. The loop calls `ended` when no process of the agents is left, whether they
 * exited or were killed. `ended` may call agent_spawn_free(). The strings of `opts` are copied. */
int agent_spawn_start(struct agent_spawn **out, struct launch_context *l,
                      const struct agent_spawn_opts *opts, void (*ended)(void *arg), void *arg,
                      struct err *e);
/* Kills the process trees of the agents; `ended` follows. */
void agent_spawn_kill(struct agent_spawn *a);
/* Frees `a`. Call this only after `ended`, or inside it. */
void agent_spawn_free(struct agent_spawn *a);
AUTO_DEFINE(agent_spawn, struct agent_spawn *, agent_spawn_free)

/* ---- for the remote engine ---------------------------------------------------------------- */

/* Returns a plan of `count` processes on this machine, without a command line. */
struct plan *agent_spawn_plan(int count);
/* Finds the program `drover-rank`. The caller frees `*out`.
 *   -ENOENT, -EACCES  the program is missing from the installation, or not executable */
int agent_spawn_program(char **out, struct err *e);

#endif
