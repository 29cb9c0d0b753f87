/* cmd_topo - `drover topo`: GPUs, interfaces, NUMA nodes and cores of each node, and how they are
 * connected. */
#pragma once

/* argv[0] is the command's name. Returns the exit status. */
int cmd_topo(int argc, char **argv);
