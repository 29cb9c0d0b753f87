/* cmd_top - `drover top`: GPUs, the processes on them, jobs and sweeps of one or several nodes. */
#pragma once

int cmd_top(int argc, char **argv);
