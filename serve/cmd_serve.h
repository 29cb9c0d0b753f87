/* cmd_serve - `drover serve`: the dashboard of the sweeps of a directory, over HTTP. */
#pragma once

/* argv[0] is "serve". Returns the exit status. */
int cmd_serve(int argc, char **argv);
