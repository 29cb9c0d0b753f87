/* row - what one far rank is: its line of the plan and the environment of the launcher, as the
 * launcher's `row` message has it. Pure.
 *
 * A rank's environment on a far node, what stands later wins: what belongs to the launcher's user
 * (rank_spec_base_env()); what belongs to the node or the session there (HOSTNAME, XDG_RUNTIME_DIR,
 * …); what mpirun or srun has set for this process (PMIX_*, OMPI_*, SLURM_*); plan.env;
 * plan_rank.env. */
#ifndef DROVER_RANK_SPEC_H
#define DROVER_RANK_SPEC_H

#include <stdbool.h>

#include "common/err.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/plan/plan.h"

struct rank_spec_opts {
    bool reports;    /* the rank gets a report channel */
    bool with_stdin; /* it reads what is sent; else /dev/null */
    bool port;       /* it is to choose MASTER_PORT: … */
    int port_wanted; /* 0: any */
    bool port_held;
};

/* Whether "NAME=value" means one host, login or terminal, and nothing on another. */
bool rank_spec_is_host_env(const char *entry);

/* The part of `env` that every rank inherits, as rank_spec_encode() takes it: strings, each with
 * its NUL. */
void rank_spec_base_env(struct strbuf *out, char *const *env);

/* The message for a rank of `p`; its payload is appended. `base` is rank_spec_base_env()'s; `wdir`
 * is where the ranks start that the plan says nothing of. */
json_t *rank_spec_encode(struct strbuf *payload, const struct plan *p, int rank, const char *wdir,
                         const struct rank_spec_opts *w, const struct strbuf *base);

struct row {
    struct plan *plan; /* of this one rank, with all that it has beyond `base` in plan.env */
    char **base;       /* strv */
    struct rank_spec_opts wish;
};

/* Decodes such a message. `own` (strv) is what the rank inherits of its agent's environment: what
 * means a host (rank_spec_is_host_env()), and what mpirun or srun has set for the agent. -EBADMSG
 * it is no such message */
int rank_spec_decode(struct row *out, const json_t *head, const char *payload, size_t len,
                     char *const *own, struct err *e);
void rank_spec_free(struct row *r);

#endif
