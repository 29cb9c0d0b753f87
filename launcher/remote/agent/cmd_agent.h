/* cmd_agent - the command `drover agent`: the parent of an agent (agent.h). Programs start it.
 *
 * mpirun and srun end what they have started with SIGKILL. They know only this process. So the
 * agent still runs after that, and the launcher's grace period holds. */
#pragma once

/* Runs an agent in a child process, and returns when no process of it is left. Returns 0; 1 if the
 * agent cannot be started; 2 if a user has started it. */
int cmd_agent(int argc, char **argv);
