/* cmd_report - `drover report NAME`. */
#pragma once

/* argv[0] is "report". Returns the exit status. */
int cmd_report(int argc, char **argv);
