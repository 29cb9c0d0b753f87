/* commands - the commands of the launcher. Each command gets an argv that begins with its own name,
 * prints its output, and returns the exit status. */
#pragma once

int cmd_run(int argc, char **argv);
int cmd_torchrun(int argc, char **argv); /* also as "ft_launcher" */
int cmd_ps(int argc, char **argv);
int cmd_logs(int argc, char **argv);
int cmd_kill(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_place(int argc, char **argv);
int cmd_estimate(int argc, char **argv);
