/* own_command - runs a command of drover in a process of its own, and collects its output. */
#pragma once

#include "common/child.h"
#include "launcher/plan/hosts.h"

/* Runs `drover ARGV...`, and waits for its end. `env` are variables that it gets in addition; NULL:
 * none. Returns 0, also if the command fails, or the error of its start. */
int own_command_run(struct child_result *r, char *const *argv, char *const *env, struct err *e);

/* Writes the hosts to a file without a name, for the option --hostfile=/proc/self/fd/N of a
 * command. Each host has one slot. Returns its descriptor, or a negative errno. */
int own_command_hosts(const struct hosts *hosts, struct err *e);

/* Returns drover's own message, without the program's name, or else the exit status. The caller
 * frees it. */
char *own_command_error(const struct child_result *r);
