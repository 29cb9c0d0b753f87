/* rank_spec - the message `rank_spec`, which contains what an agent needs to start its rank: the
 * rank's part of the plan, and the launcher's environment. Pure.
 *
 * The environment of a rank on another node has these parts, of which later ones override earlier
 * ones: the variables of the launcher's user (rank_spec_base_env()); the variables of the other
 * node or session (HOSTNAME, XDG_RUNTIME_DIR, …); the variables that mpirun or srun has set for the
 * agent (PMIX_*, OMPI_*, SLURM_*); plan.env; plan_rank.env. */
#ifndef DROVER_RANK_SPEC_H
#define DROVER_RANK_SPEC_H

#include <stdbool.h>

#include "common/err.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/plan/plan.h"

struct rank_spec_opts {
    bool reports;          /* the rank gets a report channel */
    const char *ft_config; /* launch_spec.ft_config; NULL: none */
    bool pty;              /* its stdout is a pty */
    bool with_stdin;       /* the rank reads the launcher's stdin, else /dev/null */
    bool port;             /* the rank's agent chooses MASTER_PORT; the next two members say how */
    int port_wanted;       /* 0: any free port */
    bool port_held;        /* the agent holds the port until the job ends */
};

/* Returns true if "NAME=value" describes one host, login or terminal, and has no meaning on another
 * host. */
bool rank_spec_is_host_env(const char *entry);

/* Appends the variables of `env` that every rank inherits. The form is that of rank_spec_encode()'s
 * `base`: each string with its NUL. */
void rank_spec_base_env(struct strbuf *out, char *const *env);

/* Returns the message for a rank of `p` and appends its payload. `base` is the output of
 * rank_spec_base_env(); `wdir` is the working directory if the plan has none. */
json_t *rank_spec_encode(struct strbuf *payload, const struct plan *p, int rank, const char *wdir,
                         const struct rank_spec_opts *w, const struct strbuf *base);

/* A decoded message. */
struct rank_spec {
    struct plan *plan; /* of this one rank; plan.env contains all variables that `base` does not */
    char **base;       /* strv */
    char *ft_config;   /* owns that of `opts` */
    struct rank_spec_opts opts;
};

/* Decodes a message of rank_spec_encode(). `agent_env` (strv) has the variables that the rank
 * inherits from its agent: those that describe the host (rank_spec_is_host_env()), and those that
 * mpirun or srun has set for the agent.
 *   -EBADMSG  malformed */
int rank_spec_decode(struct rank_spec *out, const json_t *head, const char *payload, size_t len,
                     char *const *agent_env, struct err *e);
void rank_spec_free(struct rank_spec *r);

#endif
