/* cmd_place - `drover place JOB.yaml`: selects GPUs for a job and runs it there, or shows the
 * choice or another program's command. */
#pragma once

int cmd_place(int argc, char **argv);
