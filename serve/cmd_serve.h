/* cmd_serve - `drover serve`: the dashboard of the sweeps of a directory, over HTTP. */
#ifndef DROVER_CMD_SERVE_H
#define DROVER_CMD_SERVE_H

/* argv[0] is "serve". Returns the exit status. */
int cmd_serve(int argc, char **argv);

#endif
