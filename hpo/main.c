/* drover-hpo - the program behind `drover sweep`, `drover worker` and `drover suggest`. */
#include <cblas.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "common/own_process.h"
#include "hpo/cmd/hpo_commands.h"

static const struct {
    const char *name, *program; /* as the user types it */
    int (*run)(int argc, char **argv);
} commands[] = {
    {"sweep", "drover sweep", cmd_sweep},       {"worker", "drover worker", cmd_worker},
    {"suggest", "drover suggest", cmd_suggest}, {"export", "drover export", cmd_export},
    {"import", "drover import", cmd_import},
};

int main(int argc, char **argv)
{
    own_process_exit_without_memory();
    openblas_set_num_threads(1); /* the order of sums is fixed: same seed, same suggestions */
    for (size_t i = 0; argc > 1 && i < COUNT_OF(commands); i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        log_open(commands[i].program);
        return own_process_flush(commands[i].run(argc - 1, argv + 1));
    }
    fputs("drover-hpo: not a command for users\n"
          "  try: drover sweep FILE, drover worker ENDPOINT, drover suggest\n",
          stderr);
    return EXIT_STATUS_USAGE;
}
