/* cmd_doctor - `drover doctor`: checks the nodes of a job before it starts. */
#ifndef DROVER_CMD_DOCTOR_H
#define DROVER_CMD_DOCTOR_H

/* argv[0] is the command's name. Returns the exit status. */
int cmd_doctor(int argc, char **argv);

#endif
