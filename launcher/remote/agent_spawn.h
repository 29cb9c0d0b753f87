/* agent_spawn - starts agents on this node for a job whose launcher may be on another one.
 *
 * The caller got a join ticket from launch_join_ticket(). The agents exit when the launcher
 * releases them or disconnects, or when they are killed. */
#ifndef DROVER_AGENT_SPAWN_H
#define DROVER_AGENT_SPAWN_H

#include "common/err.h"
#include "common/mem.h"
#include "launcher/engine/launch.h"

struct agent_spawn_opts {
    const char *control, *token; /* the join ticket */
    int first_rank, count;       /* which ranks of the job */
    const char *cgroup;          /* as launch_spec's */
};

struct agent_spawn;

/* Starts the agents. Calls `ended` from the loop when no process of them is left, whether they
 * exited or were killed; agent_spawn_free() may be called in it. Copies what `opts` points to. */
int agent_spawn_start(struct agent_spawn **out, struct launch_context *l,
                      const struct agent_spawn_opts *opts, void (*ended)(void *arg), void *arg,
                      struct err *e);
/* Kills the process trees of the agents; `ended` follows. */
void agent_spawn_kill(struct agent_spawn *a);
/* Frees it. Only after `ended`, or in it. */
void agent_spawn_free(struct agent_spawn *a);
AUTO_DEFINE(agent_spawn, struct agent_spawn *, agent_spawn_free)

/* ---- for the remote engine ---------------------------------------------------------------- */

/* Returns a plan of `count` processes on this machine, without a command line. */
struct plan *agent_spawn_plan(int count);
/* Finds the program `drover-rank`. The caller frees `*out`.
 *   -ENOENT, -EACCES  it is missing from the installation, or not executable */
int agent_spawn_program(char **out, struct err *e);

#endif
