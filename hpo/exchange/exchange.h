/* exchange - the commands that hand trials to other tools and take them from there. argv[0] is the
 * command's name; each returns its exit status. */
#ifndef DROVER_EXCHANGE_H
#define DROVER_EXCHANGE_H

int cmd_export(int argc, char **argv);
int cmd_import(int argc, char **argv);

#endif
