/* exchange - the commands that hand trials to other tools and take them from there. argv[0] is the
 * command's name; each returns its exit status. */
#pragma once

int cmd_export(int argc, char **argv);
int cmd_import(int argc, char **argv);
