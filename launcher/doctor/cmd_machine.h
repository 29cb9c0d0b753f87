/* cmd_machine - `drover machine`: prints the topology of this node for `drover run` on another
 * node, and what the checks before a job find here. */
#pragma once

/* argv[0] is the command's name. Returns the exit status. */
int cmd_machine(int argc, char **argv);
