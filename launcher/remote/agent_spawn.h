/* agents - the `drover rank`s of this node's part of a job whose launcher may be on another one:
 * who was told by launch_invitation() starts them here. They end when the launcher has no more use
 * for them, is gone, or when they are cleared. */
#ifndef DROVER_AGENT_SPAWN_H
#define DROVER_AGENT_SPAWN_H

#include "common/err.h"
#include "common/mem.h"
#include "launcher/engine/launch.h"

struct agents_ask {
    const char *control, *token; /* the invitation */
    int first_rank, count;       /* which ranks of the job */
    const char *cgroup;          /* as launch_spec's */
};

struct agents;

/* `ended`: nothing of them is left, by themselves or by agents_clear(); agents_free() may be called
 * in it. What `ask` points to is copied. */
int agents_start(struct agents **out, struct launcher *l, const struct agents_ask *ask,
                 void (*ended)(void *arg), void *arg, struct err *e);
/* SIGKILL to them and all that they have started; `ended` follows. */
void agents_clear(struct agents *a);
/* After `ended`, or in it. */
void agents_free(struct agents *a);
AUTO_DEFINE(agents, struct agents *, agents_free)

/* ---- for the engine that starts them itself ---------------------------------------------- */

/* A plan of `count` processes here with nothing in it yet. */
struct plan *agents_plan(int count);
/* The program `drover-rank`. To be freed.
 *   -ENOENT, -EACCES  it is not where it should be */
int agents_program(char **out, struct err *e);

#endif
