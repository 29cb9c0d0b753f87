/* drover-serve - the program behind `drover serve` and `drover report`. */
#include <cblas.h>
#include <stdio.h>
#include <string.h>

#include "common/command.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/own_process.h"
#include "serve/cmd_serve.h"
#include "serve/report/cmd_report.h"

int main(int argc, char **argv)
{
    own_process_exit_without_memory();
    own_process_ensure_std_fds();
    openblas_set_num_threads(1); /* the same figures as in the sweep, and one thread */
    static const struct {
        const char *name, *program;
        int (*run)(int argc, char **argv);
    } commands[] = {{"serve", "drover serve", cmd_serve}, {"report", "drover report", cmd_report}};
    for (size_t i = 0; argc > 1 && i < COUNT_OF(commands); i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        log_open(commands[i].program);
        return own_process_flush(commands[i].run(argc - 1, argv + 1));
    }
    fputs("drover-serve: not a command for users\n"
          "  try: drover serve\n",
          stderr);
    return EXIT_STATUS_USAGE;
}
