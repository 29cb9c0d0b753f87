/* cmd_place - `drover place JOB.yaml`: selects GPUs for a job and runs it there, or shows the
 * choice or another program's command. */
#ifndef DROVER_CMD_PLACE_H
#define DROVER_CMD_PLACE_H

int cmd_place(int argc, char **argv);

#endif
