/* cmd_estimate - `drover estimate`: says if a training fits into the memory of its GPUs. */
#pragma once

int cmd_estimate(int argc, char **argv);
