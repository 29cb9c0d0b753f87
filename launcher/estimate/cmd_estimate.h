/* cmd_estimate - `drover estimate`: says if a training fits into the memory of its GPUs. */
#ifndef DROVER_CMD_ESTIMATE_H
#define DROVER_CMD_ESTIMATE_H

int cmd_estimate(int argc, char **argv);

#endif
