/* remote_launcher - the programs that start agents on other nodes, one row each: mpirun, srun.
 *
 * A row has what differs between them; engine_remote does the rest. A launcher starts one agent
 * (`drover rank`) per rank of a plan, on the rank's node. Its program runs as a child of this
 * process's guardian, in its directory, with stdin at /dev/null. What it prints is kept, shown with
 * --verbose, and searched for a cause if it fails. It should neither bind the agents nor touch
 * their output.
 *
 * A new launcher is a file in launchers/ and a line of REMOTE_LAUNCHERS. */
#ifndef DROVER_REMOTE_LAUNCHER_H
#define DROVER_REMOTE_LAUNCHER_H

#include <stdbool.h>

#include "common/err.h"
#include "launcher/plan/plan.h"

/* What an agent needs in its environment. The variables are passed on by name: the token never
 * appears on a command line. */
#define REMOTE_ENV_CONTROL "DROVER_CONTROL" /* where the launcher listens: ADDRESS:PORT,… */
#define REMOTE_ENV_TOKEN                                                     \
    "DROVER_TOKEN" /* proves that an agent belongs to the job: 64 hex digits \
                    */
#define REMOTE_ENV_RANK \
    "DROVER_AGENT_RANK" /* the agent's rank, if no launcher has a variable for it */

struct remote_launcher_opts {
    const struct plan *plan;
    char *const *engine_args; /* the user's arguments for it, verbatim; NULL: none */
    const char *program;      /* path of the launcher's program */
    const char *drover_rank;  /* path of the agent's program, the same on every node */
    const char *session_dir;  /* a directory of this job on this machine */
    const char *hostfile;     /* a file with the name of each rank's node, one per line, by rank */
};

struct remote_launcher {
    const char *word;    /* its name in --engine, launch_spec.engine and plan.engine */
    bool hidden;         /* programs choose it, users do not */
    const char *program; /* searched in PATH, without links to drover; NULL: the agent itself */
    const char *package; /* what to install if the program is missing */
    const char *const
        *env_prefixes; /* of the variables that it sets for a process; NULL at the end */
    const char *const
        *rank_env; /* variables that hold an agent's rank, the first that is set; NULL */
    /* Builds the command line. Pure. `*argv` is the whole command line; the caller frees it (strv).
     * `*env` is the program's whole environment with the variables above in it, to which this may
     * add. NULL: others start the agents, as launch_join_ticket() describes.
     *   -EINVAL  engine_args contradict the plan, or this program cannot do what the plan needs */
    int (*argv)(char ***argv, char ***env, const struct remote_launcher_opts *o, struct err *e);
    /* Finds in the last lines that it printed why it failed, as text and hint. Pure. Returns false
     * if no line is known. `lines` end with NULL, oldest first. NULL: it prints nothing of use. */
    bool (*find_failure)(struct err *e, const char *const *lines);
    bool takes_args;  /* engine_args mean something to it */
    bool serves_pmix; /* to the ranks, whose agents it has started */
    bool lingers;  /* after a failure it takes long to exit, and repeats what drover has reported */
    bool per_rank; /* it is started here once per rank, with REMOTE_ENV_RANK, instead of once */
};

/* The table: ROW(NAME) stands for remote_launcher_NAME. DROVER_AGENT_RANK, which local_agents
 * reads, precedes the variables of mpirun and srun, inside which a job may run. */
#define REMOTE_LAUNCHERS(ROW)                                                            \
    ROW(local_agents) /* a child of this process per rank, on this machine: for tests */ \
    ROW(external)     /* others start the agents, with launch_join_ticket() */           \
    ROW(mpirun)                                                                          \
    ROW(srun)

/* The words of the rows that users may choose, for option texts and hints. test_remote_launcher
 * compares it with the rows. */
#define REMOTE_LAUNCHER_WORDS "openmpi, slurm"

#define REMOTE_LAUNCHER_DECLARE(name) extern const struct remote_launcher remote_launcher_##name;
REMOTE_LAUNCHERS(REMOTE_LAUNCHER_DECLARE)

/* All rows, NULL at the end. */
extern const struct remote_launcher *const remote_launchers[];

/* Returns the row with this word; NULL: there is none, as for "local". */
const struct remote_launcher *remote_launcher_find(const char *word);

/* Whether a launcher sets "NAME=value" for the processes that it starts. The directory that mpirun
 * uses on the head node is not of this kind: a rank's own mpirun may not have it. */
bool remote_launcher_sets(const char *entry);

/* Returns `env` without those variables. The caller frees it (strv). */
char **remote_launcher_strip_env(char *const *env);

/* Returns the rank that a launcher has given to an agent with this environment; -1: none. */
int remote_launcher_rank(char *const *env);

#endif
