/* remote_launcher - the programs that start agents on other nodes, such as mpirun, srun and ssh.
 * Each has a row.
 *
 * A row describes how one launcher differs from the others; engine_remote does what is common. A
 * launcher starts one agent (`drover agent`) per node of a plan. Its program runs as a child of
 * this process's guardian, in the current directory, with /dev/null as stdin. Its output is kept,
 * shown with --verbose, and searched for a cause if the launcher fails. A launcher should neither
 * bind the agents nor change their output.
 *
 * A new launcher is a file in launchers/ and a line of REMOTE_LAUNCHERS. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "launcher/plan/plan.h"

/* Variables that an agent needs in its environment. Launchers pass them on by name, so that the
 * token never appears on a command line. */
#define REMOTE_ENV_CONTROL "DROVER_CONTROL" /* where the launcher listens: ADDRESS:PORT,… */
/* 64 hex digits, which prove that an agent belongs to the job */
#define REMOTE_ENV_TOKEN "DROVER_TOKEN"
/* the number of the agent's node, if no launcher has a variable for it */
#define REMOTE_ENV_NODE "DROVER_AGENT_NODE"

/* The command of `drover` that is an agent, and its argument by which it reads its variables from
 * stdin (agent_spawn_read_env()). */
#define REMOTE_AGENT_COMMAND "agent"
#define REMOTE_AGENT_ENV_OPTION "--environment-from-stdin"

struct remote_launcher_opts {
    const struct plan *plan;
    char *const *engine_args; /* the user's arguments for the launcher, unchanged; NULL: none */
    const char *program;      /* path of the launcher's program */
    const char *drover;       /* path of `drover`, the same on every node; the agent is its command
                                 REMOTE_AGENT_COMMAND */
    const char *session_dir;  /* a directory of this job on this machine */
    const char *hostfile;     /* a file with the names of the nodes, one per line */
    int node;                 /* per_node: the node whose agent the command line starts */
};

struct remote_launcher {
    const char *word;    /* name of the launcher in --engine, launch_spec.engine and plan.engine */
    bool hidden;         /* only programs choose this launcher, not users */
    const char *program; /* searched in PATH, without links to drover; NULL: the agent itself */
    /* Returns the program that the user's arguments or environment name instead of `program`; NULL:
     * they name none. The caller frees it. If the function is NULL, users cannot name one. */
    char *(*program_for)(char *const *engine_args, char *const *env);
    const char *package; /* what to install if the program is missing */
    const char *const
        *env_prefixes; /* prefixes of the variables that it sets for a process; NULL-terminated */
    const char *const *node_env; /* variables with the number of the agent's node, of which the
                                    first that is set counts; NULL-terminated */
    /* Builds the command line. Pure. `*argv` is the whole command line; the caller frees it (strv).
     * `*env` is the program's whole environment, which includes the variables above; the function
     * may add variables. If the function is NULL, others start the agents, as launch_join_ticket()
     * describes.
     *   -EINVAL  engine_args contradict the plan, or this program cannot do what the plan needs */
    int (*argv)(char ***argv, char ***env, const struct remote_launcher_opts *o, struct err *e);
    /* Finds the cause of a failure in the launcher's last lines, and sets it as text and hint.
     * Returns false if no line is known. Pure. `host` is the node whose launcher has printed the
     * lines, NULL: not known. `lines` is NULL-terminated, oldest first. If the function is NULL,
     * the launcher prints nothing useful. */
    bool (*find_failure)(struct err *e, const char *host, const char *const *lines);
    bool takes_args;   /* the launcher accepts all engine_args */
    bool lingers;      /* after a failure it exits late, or repeats what drover has reported */
    bool per_node;     /* it is started once per node, with REMOTE_ENV_NODE, and not once per job */
    int at_once;       /* per_node: this many are started, and one more whenever an agent has
                          connected; 0: all */
    bool env_on_stdin; /* REMOTE_ENV_CONTROL and REMOTE_ENV_TOKEN are passed to the agents through
                          stdin (agent_spawn.h), and not in the environment */
};

/* The table: ROW(NAME) stands for remote_launcher_NAME. A job may run inside an mpirun or srun.
 * So local_agents, which reads REMOTE_ENV_NODE, must precede mpirun and srun, which read their own
 * variables. */
#define REMOTE_LAUNCHERS(ROW)                                                            \
    ROW(local_agents) /* a child of this process per node, on this machine: for tests */ \
    ROW(external)     /* others start the agents, with launch_join_ticket() */           \
    ROW(mpirun)                                                                          \
    ROW(srun)                                                                            \
    ROW(ssh)

/* The words of the rows that users may choose, for option texts and hints. test_remote_launcher
 * compares this text with the rows. */
#define REMOTE_LAUNCHER_WORDS(separator) "openmpi" separator "slurm" separator "ssh"

#define REMOTE_LAUNCHER_DECLARE(name) extern const struct remote_launcher remote_launcher_##name;
REMOTE_LAUNCHERS(REMOTE_LAUNCHER_DECLARE)

/* All rows; NULL-terminated. */
extern const struct remote_launcher *const remote_launchers[];

/* Appends the words of a text, as for printf(3), to a command line. Blanks separate them. */
void remote_launcher_push(char ***argv, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Returns the row with this word, or NULL if there is none, as for "local". */
const struct remote_launcher *remote_launcher_find(const char *word);

/* Returns true if a launcher sets "NAME=value" for the processes that it starts. Returns false for
 * the session directory that drover sets for mpirun: an mpirun that a rank starts must not inherit
 * it. */
bool remote_launcher_sets(const char *entry);

/* Returns `env` without the variables for which remote_launcher_sets() is true. The caller frees it
 * (strv). */
char **remote_launcher_strip_env(char *const *env);

/* Returns the number of the node that a launcher has given to an agent with this environment, or -1
 * if there is none. */
int remote_launcher_node(char *const *env);
