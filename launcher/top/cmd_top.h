/* cmd_top - `drover top`: GPUs, the processes on them, jobs and sweeps of one or several nodes. */
#ifndef DROVER_CMD_TOP_H
#define DROVER_CMD_TOP_H

int cmd_top(int argc, char **argv);

#endif
