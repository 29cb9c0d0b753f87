/* drover-serve - the program behind `drover serve`. */
#include <cblas.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/own_process.h"
#include "hpo/cmd/hpo_commands.h"
#include "serve/cmd_serve.h"

int main(int argc, char **argv)
{
    own_process_exit_without_memory();
    own_process_ensure_std_fds();
    openblas_set_num_threads(1); /* the same figures as in the sweep, and one thread */
    if (argc > 1 && strcmp(argv[1], "serve") == 0) {
        log_open("drover serve");
        return cmd_serve(argc - 1, argv + 1);
    }
    fputs("drover-serve: not a command for users\n"
          "  try: drover serve\n",
          stderr);
    return EXIT_USAGE;
}
