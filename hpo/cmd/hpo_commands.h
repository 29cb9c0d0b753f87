/* hpo_commands - the commands of drover-hpo. argv[0] is the command's name; each returns its exit
 * status. */
#ifndef DROVER_HPO_COMMANDS_H
#define DROVER_HPO_COMMANDS_H

#include "common/command.h"

int cmd_sweep(int argc, char **argv);
/* `sweep ls`, `sweep show`. */
int cmd_sweep_ls(int argc, char **argv);
int cmd_sweep_show(int argc, char **argv);
/* `sweep stop`, `cancel`, `pause`, `retry`, `add`. */
int cmd_sweep_control(int argc, char **argv);
int cmd_sweep_best(int argc, char **argv);
int cmd_sweep_logs(int argc, char **argv);
int cmd_sweep_rm(int argc, char **argv);
int cmd_worker(int argc, char **argv);
int cmd_suggest(int argc, char **argv);

/* A command on sweeps. */
struct hpo_command {
    struct opt_help help;
    const struct opt *options;
    size_t words_max; /* words on the command line; the first is a sweep's name. 0: none */
    /* `into` has what `options` describe. Returns an exit status or -errno. */
    int (*run)(char **words, void *into, struct err *e);
};

/* Runs it as command_run() does. */
int hpo_commands_run(const struct hpo_command *c, void *into, int argc, char **argv);

#endif
