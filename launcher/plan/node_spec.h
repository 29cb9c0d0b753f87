/* node_spec - what an agent needs to start the ranks of its node: the message `job`, which is the
 * same for all nodes and has the map of the job and the launcher's environment, and the message
 * `node_spec` with the node's part of the plan. Pure.
 *
 * The environment of a rank on another node has these parts, of which later ones override earlier
 * ones: the variables of the launcher's user (node_spec_base_env()); the variables of the other
 * node or session (HOSTNAME, XDG_RUNTIME_DIR, …); plan.env; plan_rank.env. What the remote launcher
 * has set for the agent (PMIX_*, OMPI_*, PMI_*, SLURM_PROCID, …) does not reach the ranks. */
#pragma once

#include <stdbool.h>

#include "common/err.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "launcher/plan/job_map.h"
#include "launcher/plan/plan.h"

/* Returns true if "NAME=value" describes one host, login or terminal, and has no meaning on another
 * host. */
bool node_spec_is_host_env(const char *entry);

/* Appends the variables of `env` that every rank inherits: each string with its NUL. */
void node_spec_base_env(struct strbuf *out, char *const *env);

/* Returns the message `job` of `p` and appends its payload. `base` is the output of
 * node_spec_base_env(); `wdir` is the working directory if the plan has none. */
json_t *node_spec_encode_job(struct strbuf *payload, const struct plan *p, const char *wdir,
                             const struct launch_node_settings *n, const struct strbuf *base);
/* Returns the message `node_spec` for a node of `p`, which plan_make() has made, and appends its
 * payload. */
json_t *node_spec_encode(struct strbuf *payload, const struct plan *p, int node);

/* A message as it was received. */
struct node_spec_message {
    const json_t *head;
    const char *payload;
    size_t len;
};

/* Both messages, decoded. */
struct node_spec {
    struct plan *plan; /* a local plan of this node's ranks: plan.ranks[i] is rank map->local[i] of
                          the job; plan.env contains all variables that `base` does not */
    struct job_map *map; /* of the whole job */
    char **base;         /* strv */
    char *ft_config;     /* owns that of `settings` */
    struct launch_node_settings settings;
};

/* Decodes the messages `job` and `node_spec`. `agent_env` (strv) has the variables that the ranks
 * inherit from their agent: those of its host (node_spec_is_host_env()), and those that describe an
 * allocation of Slurm.
 *   -EBADMSG  malformed */
int node_spec_decode(struct node_spec *out, const struct node_spec_message *job,
                     const struct node_spec_message *own, char *const *agent_env, struct err *e);
void node_spec_free(struct node_spec *r);
