/* agent_spawn - starts an agent on this node, for a job whose launcher may be on another node.
 *
 * The launcher's process gets the join ticket from launch_join_ticket(). The agent exits when the
 * launcher releases it or disconnects, or when it is killed. */
#pragma once

#include "common/err.h"
#include "common/mem.h"
#include "launcher/engine/launch.h"

struct agent_spawn_opts {
    const char *control, *token; /* the join ticket */
    int node;                    /* number of this node in the plan of the job */
    const char *cgroup;          /* as launch_spec.cgroup */
};

struct agent_spawn;

/* Starts the agent. The loop calls `ended` when no process of the agent is left, whether it exited
 * or was killed. `ended` may call agent_spawn_free(). The strings of `opts` are copied. */
int agent_spawn_start(struct agent_spawn **out, struct launch_context *l,
                      const struct agent_spawn_opts *opts, void (*ended)(void *arg), void *arg,
                      struct err *e);
/* Kills the process tree of the agent; `ended` follows. */
void agent_spawn_kill(struct agent_spawn *a);
/* Frees `a`. Call this only after `ended`, or inside it. */
void agent_spawn_free(struct agent_spawn *a);
AUTO_DEFINE(agent_spawn, struct agent_spawn *, agent_spawn_free)

/* ---- for the remote engine ------------------------------------------------------------------ */

/* Returns a plan of `count` processes on this machine, without a command line. */
struct plan *agent_spawn_plan(int count);
/* Finds the program `drover`, whose command REMOTE_AGENT_COMMAND is the agent. The caller frees
 * `*out`.
 *   -ENOENT, -EACCES  the program is missing from the installation, or not executable */
int agent_spawn_program(char **out, struct err *e);

/* Variables reach an agent through its stdin if other users can see the launcher's command line and
 * it passes no environment, such as ssh. The text is one line per variable, "NAME=value", and an
 * empty line. Returns the text with the address and the token of the launcher (REMOTE_ENV_CONTROL,
 * REMOTE_ENV_TOKEN). The caller frees it. */
char *agent_spawn_env_text(const char *control, const char *token);
/* Reads such a text from `fd`, up to the empty line, and sets these variables in this process.
 * Blocks until the text is complete. `fd` is then /dev/null.
 *   -EBADMSG  `fd` ends before the text does, or contains something else */
int agent_spawn_read_env(int fd, struct err *e);
