/* drover-hpo - the program behind `drover sweep`, `drover worker` and `drover suggest`. */
#include <cblas.h>
#include <printf.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "hpo/cmd/hpo_commands.h"

static const struct {
    const char *name, *program;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"sweep", "drover sweep", cmd_sweep},
    {"worker", "drover worker", cmd_worker},
    {"suggest", "drover suggest", cmd_suggest},
};

/* Replaces libc's function (Makefile: --export-dynamic-symbol). OpenBLAS loads libquadmath, which
 * would register __float128 with printf. From then on libc would format every number on its slow
 * path, although drover prints no __float128. */
__attribute__((visibility("default"))) int register_printf_type(printf_va_arg_function *write)
{
    return -1;
}

int main(int argc, char **argv)
{
    openblas_set_num_threads(1); /* sums in one order: the same seed gives the same suggestions */
    for (size_t i = 0; argc > 1 && i < COUNT_OF(commands); i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        log_open(commands[i].program);
        return commands[i].run(argc - 1, argv + 1);
    }
    fputs("drover-hpo: started by drover: drover sweep FILE, drover worker ENDPOINT, drover "
          "suggest\n",
          stderr);
    return EXIT_USAGE;
}
