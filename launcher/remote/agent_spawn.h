/* agents - the `drover rank`s of this node's part of a job whose launcher may be on another one:
 * who was told by launch_join_ticket() starts them here. They end when the launcher has no more use
 * for them, is gone, or when they are cleared. */
#ifndef DROVER_AGENT_SPAWN_H
#define DROVER_AGENT_SPAWN_H

#include "common/err.h"
#include "common/mem.h"
#include "launcher/engine/launch.h"

struct agent_spawn_opts {
    const char *control, *token; /* the invitation */
    int first_rank, count;       /* which ranks of the job */
    const char *cgroup;          /* as launch_spec's */
};

struct agent_spawn;

/* `ended`: nothing of them is left, by themselves or by agent_spawn_kill(); agent_spawn_free() may
 * be called in it. What `ask` points to is copied. */
int agent_spawn_start(struct agent_spawn **out, struct launch_context *l,
                      const struct agent_spawn_opts *ask, void (*ended)(void *arg), void *arg,
                      struct err *e);
/* SIGKILL to them and all that they have started; `ended` follows. */
void agent_spawn_kill(struct agent_spawn *a);
/* After `ended`, or in it. */
void agent_spawn_free(struct agent_spawn *a);
AUTO_DEFINE(agent_spawn, struct agent_spawn *, agent_spawn_free)

/* ---- for the engine that starts them itself ---------------------------------------------- */

/* A plan of `count` processes here with nothing in it yet. */
struct plan *agent_spawn_plan(int count);
/* The program `drover-rank`. To be freed.
 *   -ENOENT, -EACCES  it is not where it should be */
int agent_spawn_program(char **out, struct err *e);

#endif
