#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "launcher/starter.h"
#include "launcher/starter_cause.h"

/* Open MPI 4.1's mpirun, and 5's. Rank i runs on line i of the host file (the sequential mapper),
 * whatever slots mpirun counts; nothing is bound, since `drover rank` binds its rank. In / because
 * the directory of here need not be there. --allow-run-as-root means nothing to who is not root.
 * The user's words come last, and win where mpirun lets them. */
static int argv_openmpi(char ***argv, char ***env, const struct starter_job *j, struct err *e)
{
    AUTO(free) char *ranks = xasprintf("%d", j->plan->world_size);
    const char *const words[] = {
        j->program,      "--hostfile", j->hostfile,  "--map-by", "seq:OVERSUBSCRIBE",
        "-np",           ranks,        "--bind-to",  "none",     "--allow-run-as-root",
        "--stdin",       "none",       "-wdir",      "/",        "-x",
        STARTER_CONTROL, "-x",         STARTER_TOKEN};
    for (size_t i = 0; i < COUNT_OF(words); i++)
        strv_push(argv, xstrdup(words[i]));
    for (size_t i = 0; j->engine_args && j->engine_args[i]; i++)
        strv_push(argv, xstrdup(j->engine_args[i]));
    strv_push(argv, xstrdup(j->drover));
    strv_push(argv, xstrdup("rank"));
    return 0;
}

const struct starter starter_openmpi = {
    .program = "mpirun", .package = "openmpi-bin", .argv = argv_openmpi, .cause = starter_cause};
