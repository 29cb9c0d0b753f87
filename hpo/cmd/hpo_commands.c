#include "hpo/cmd/hpo_commands.h"

int hpo_commands_run(const struct hpo_command *c, void *into, int argc, char **argv)
{
    const struct command command = {.help = c->help,
                                    .options = c->options,
                                    .words_min = c->words_max > 0,
                                    .words_max = c->words_max,
                                    .missing = "no sweep name given",
                                    .missing_hint = "drover sweep ls  lists the sweeps",
                                    .run = c->run};
    return command_run(&command, into, argc, argv);
}
