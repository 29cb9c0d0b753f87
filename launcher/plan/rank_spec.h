/* rank_spec - what an agent needs to start its rank: the rank's part of the plan and the
 * launcher's environment, as the message `rank_spec` carries them. Pure.
 *
 * The environment of a rank on another node consists of, later ones override: the variables of the
 * launcher's user (rank_spec_base_env()); those of the node or session there (HOSTNAME,
 * XDG_RUNTIME_DIR, …); those that mpirun or srun has set for the agent (PMIX_*, OMPI_*, SLURM_*);
 * plan.env; plan_rank.env. */
#ifndef DROVER_RANK_SPEC_H
#define DROVER_RANK_SPEC_H

#include <stdbool.h>

#include "common/err.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/plan/plan.h"

struct rank_spec_opts {
    bool reports;    /* the rank gets a report channel */
    bool pty;        /* its stdout is a pty */
    bool with_stdin; /* it reads the launcher's stdin; else /dev/null */
    bool port;       /* its agent chooses MASTER_PORT, as the next two members say */
    int port_wanted; /* 0: any free port */
    bool port_held;  /* the agent holds the port until the job ends */
};

/* Returns whether "NAME=value" describes one host, login or terminal, and is meaningless on
 * another host. */
bool rank_spec_is_host_env(const char *entry);

/* Appends the variables of `env` that every rank inherits, in the form for rank_spec_encode():
 * strings, each with its NUL. */
void rank_spec_base_env(struct strbuf *out, char *const *env);

/* Returns the message for a rank of `p` and appends its payload. `base` is the output of
 * rank_spec_base_env(); `wdir` is the working directory if the plan has none. */
json_t *rank_spec_encode(struct strbuf *payload, const struct plan *p, int rank, const char *wdir,
                         const struct rank_spec_opts *w, const struct strbuf *base);

/* A decoded message. */
struct rank_spec {
    struct plan *plan; /* of this one rank; plan.env contains all variables that `base` does not */
    char **base;       /* strv */
    struct rank_spec_opts opts;
};

/* Decodes such a message. `agent_env` (strv) holds what the rank inherits from its agent's
 * environment: the variables that describe the host (rank_spec_is_host_env()), and those that
 * mpirun or srun has set for the agent. -EBADMSG  malformed */
int rank_spec_decode(struct rank_spec *out, const json_t *head, const char *payload, size_t len,
                     char *const *agent_env, struct err *e);
void rank_spec_free(struct rank_spec *r);

#endif
