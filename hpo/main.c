/* drover-hpo - the program behind `drover sweep` and `drover worker`. */
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/mem.h"
#include "hpo/cmd.h"

static const struct {
    const char *name, *who;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"sweep", "drover sweep", cmd_sweep},
    {"worker", "drover worker", cmd_worker},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < COUNT_OF(commands); i++) {
        if (strcmp(argv[1], commands[i].name) != 0)
            continue;
        log_open(commands[i].who);
        return commands[i].run(argc - 1, argv + 1);
    }
    fputs("drover-hpo is called by drover: drover sweep FILE, drover worker ENDPOINT\n", stderr);
    return EXIT_USAGE;
}
