/* cmd_bench - `drover bench OP [options]`. */
#pragma once

/* Runs `drover bench`. argv[0] is the program, argv[1] is "bench". Returns the exit status. */
int cmd_bench(int argc, char **argv);
