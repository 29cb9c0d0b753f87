/* cmd - the commands of drover-hpo. argv[0] is the command's name; the result is an exit status. */
#ifndef DROVER_HPO_CMD_H
#define DROVER_HPO_CMD_H

int cmd_sweep(int argc, char **argv);
/* `sweep ls`, `sweep show`. */
int cmd_sweep_ls(int argc, char **argv);
int cmd_sweep_show(int argc, char **argv);
int cmd_worker(int argc, char **argv);
int cmd_suggest(int argc, char **argv);

enum { EXIT_WORK = 1, EXIT_USAGE = 2 };

#endif
