/* starter - a program that starts one `drover rank` for each rank of a plan, on the rank's node:
 * mpirun, srun. Here is what differs between them; engine_remote does the rest.
 *
 * The program runs as a child of this process's guardian, in its directory, with stdin at
 * /dev/null. What it prints is kept, shown with --verbose, and looked through for a cause when it
 * fails. It should neither bind the `drover rank`s nor touch their output, and each must find its
 * rank as PMIX_RANK, OMPI_COMM_WORLD_RANK or SLURM_PROCID. */
#ifndef DROVER_REMOTE_LAUNCHER_H
#define DROVER_REMOTE_LAUNCHER_H

#include <stdbool.h>

#include "common/err.h"
#include "launcher/plan/plan.h"

/* What each `drover rank` needs in its environment. Passed on by name: the token never stands on a
 * command line. */
#define REMOTE_ENV_CONTROL "DROVER_CONTROL" /* where we listen: ADDRESS:PORT,… */
#define REMOTE_ENV_TOKEN "DROVER_TOKEN" /* the secret that says that it is ours: 64 hex digits */
#define REMOTE_ENV_RANK \
    "DROVER_AGENT_RANK" /* only from a starter that has no variable of its own */

struct remote_launcher_opts {
    const struct plan *plan;
    char *const *engine_args; /* the user's words for it, as they are; NULL: none */
    const char *program;      /* path of the starter's program */
    const char *drover_rank;  /* the program's path, on every node */
    const char *workdir;      /* a directory of this job's on this machine */
    const char *hostfile;     /* a file with the name of each rank's node, one a line, by rank */
};

struct remote_launcher {
    const char *program; /* looked for in PATH; one that is a link to drover is passed over */
    const char *package; /* what to install where it is missing */
    /* Pure. `*argv` is the whole command line, to be freed (strv). `*env` is the program's whole
     * environment, with the two variables above in it, to be added to.
     *   -EINVAL  engine_args contradict the plan, or this program cannot do what it asks for */
    int (*argv)(char ***argv, char ***env, const struct remote_launcher_opts *j, struct err *e);
    /* Pure. What the last lines that it printed say about why it failed, as text and hint; false:
     * nothing that is known. NULL-terminated, oldest first. */
    bool (*cause)(struct err *e, const char *const *lines);
    bool lingers; /* after a failure it takes its time to end, and says what we have said */
    bool each;    /* started here once for each rank, with REMOTE_ENV_RANK, instead of once */
};

extern const struct remote_launcher remote_launcher_mpirun, remote_launcher_srun;

/* `drover rank` itself, each on this machine: the far way of starting without a far machine. */
extern const struct remote_launcher remote_launcher_local;

/* None: others start them, as launch_join_ticket() says. */
extern const struct remote_launcher remote_launcher_external;

#endif
