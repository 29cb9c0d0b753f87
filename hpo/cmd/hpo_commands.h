/* hpo_commands - the commands of drover-hpo. argv[0] is the command's name; each returns its exit
 * status. */
#pragma once

#include "common/command.h"

int cmd_sweep(int argc, char **argv);
/* `sweep ls`, `sweep show`, `sweep best`. */
int cmd_sweep_ls(int argc, char **argv);
int cmd_sweep_show(int argc, char **argv);
int cmd_sweep_best(int argc, char **argv);
/* `sweep stop`, `cancel`, `pause`, `retry`, `add`. */
int cmd_sweep_control(int argc, char **argv);
int cmd_sweep_logs(int argc, char **argv);
int cmd_sweep_rm(int argc, char **argv);
int cmd_worker(int argc, char **argv);
int cmd_suggest(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_import(int argc, char **argv);

/* The words of a command on a sweep: its name, and at most `max` - 1 others. */
#define HPO_COMMAND_SWEEP(max)                                            \
    .words_min = 1, .words_max = (max), .missing = "no sweep name given", \
    .missing_hint = "drover sweep ls  lists the sweeps"
