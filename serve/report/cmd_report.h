/* cmd_report - `drover report NAME`. */
#ifndef DROVER_CMD_REPORT_H
#define DROVER_CMD_REPORT_H

/* argv[0] is "report". Returns the exit status. */
int cmd_report(int argc, char **argv);

#endif
