/* commands - the commands of the launcher. Each command gets an argv that begins with its own name,
 * prints its output, and returns the exit status. */
#pragma once

int cmd_run(int argc, char **argv);
int cmd_torchrun(int argc, char **argv); /* also as "ft_launcher" */
int cmd_ps(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_runs(int argc, char **argv);
int cmd_why(int argc, char **argv);
int cmd_kill(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_place(int argc, char **argv);
int cmd_estimate(int argc, char **argv);
int cmd_topo(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
/* Prints the topology of this node for `drover run` on another node, and what the checks before a
 * job find here. */
int cmd_machine(int argc, char **argv);
/* The parent of an agent (agent.h), which runs in a child process; returns when no process of it is
 * left. Returns 0; 1 if the agent cannot be started; 2 if a user has started it.
 *
 * mpirun and srun end what they have started with SIGKILL. They know only this process. So the
 * agent still runs after that, and the launcher's grace period holds. */
int cmd_agent(int argc, char **argv);
