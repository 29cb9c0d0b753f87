#include "launcher/starter.h"
static int mpirun_argv(char ***argv, char ***env, const struct starter_job *j, struct err *e)
{
    const char *words[] = {j->program, "--map-by",      "seq",       "--bind-to",
                           "none",     "--hostfile",    j->hostfile, "--allow-run-as-root",
                           "-x",       STARTER_CONTROL, "-x",        STARTER_TOKEN,
                           j->drover,  "rank"};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        strv_push(argv, xstrdup(words[i]));
    return 0;
}
const struct starter starter_openmpi = {
    .program = "mpirun", .package = "openmpi-bin", .argv = mpirun_argv};
