/* node_spec - the message `node_spec`, which contains what an agent needs to start the ranks of its
 * node: the node's part of the plan, the map of the job, and the launcher's environment. Pure.
 *
 * The environment of a rank on another node has these parts, of which later ones override earlier
 * ones: the variables of the launcher's user (node_spec_base_env()); the variables of the other
 * node or session (HOSTNAME, XDG_RUNTIME_DIR, …); plan.env; plan_rank.env. What the remote launcher
 * has set for the agent (PMIX_*, OMPI_*, PMI_*, SLURM_PROCID, …) does not reach the ranks. */
#ifndef DROVER_NODE_SPEC_H
#define DROVER_NODE_SPEC_H

#include <stdbool.h>

#include "common/err.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/plan/job_map.h"
#include "launcher/plan/plan.h"

struct node_spec_opts {
    bool reports;          /* the ranks get a report channel */
    const char *ft_config; /* launch_spec.ft_config; NULL: none */
    bool pty;              /* their stdout is a pty */
    int stdin_rank;  /* the rank (in the whole job) that reads the launcher's stdin; < 0: none */
    bool pmix;       /* the agent serves PMIx and PMI-1 */
    int radix;       /* of the tree of agents (tree.h) */
    bool port;       /* the agent chooses MASTER_PORT; the next two members say how */
    int port_wanted; /* 0: any free port */
    bool port_held;  /* the agent holds the port until the job ends */
};

/* Returns true if "NAME=value" describes one host, login or terminal, and has no meaning on another
 * host. */
bool node_spec_is_host_env(const char *entry);

/* Appends the variables of `env` that every rank inherits. The form is that of node_spec_encode()'s
 * `base`: each string with its NUL. */
void node_spec_base_env(struct strbuf *out, char *const *env);

/* Returns the message for a node of `p` and appends its payload. `base` is the output of
 * node_spec_base_env(); `wdir` is the working directory if the plan has none. */
json_t *node_spec_encode(struct strbuf *payload, const struct plan *p, int node, const char *wdir,
                         const struct node_spec_opts *w, const struct strbuf *base);

/* A decoded message. */
struct node_spec {
    struct plan *plan; /* a local plan of this node's ranks: plan.ranks[i] is rank map->local[i] of
                          the job; plan.env contains all variables that `base` does not */
    struct job_map *map; /* of the whole job */
    char **base;         /* strv */
    char *ft_config;     /* owns that of `opts` */
    struct node_spec_opts opts;
};

/* Decodes a message of node_spec_encode(). `agent_env` (strv) has the variables that the ranks
 * inherit from their agent: those of its host (node_spec_is_host_env()), and those that describe an
 * allocation of Slurm.
 *   -EBADMSG  malformed */
int node_spec_decode(struct node_spec *out, const json_t *head, const char *payload, size_t len,
                     char *const *agent_env, struct err *e);
void node_spec_free(struct node_spec *r);

#endif
