/* cmd_doctor - `drover doctor`: checks the nodes of a job before it starts. */
#pragma once

/* argv[0] is the command's name. Returns the exit status. */
int cmd_doctor(int argc, char **argv);
