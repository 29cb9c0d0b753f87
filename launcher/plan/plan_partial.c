#include "launcher/plan/plan_partial.h"

#include <string.h>

#include "launcher/plan/env.h"

void plan_partial_of_job(struct plan *p, const struct launch_spec *s)
{
    bool world_size_given = s->external_part.world_size > 0;
    int local_ranks = p->world_size, world = world_size_given
                                                 ? s->external_part.world_size
                                                 : local_ranks * s->external_part.nodes;
    if (s->external_part.nodes == 0)
        return;
    p->first_rank =
        world_size_given ? s->external_part.first_rank : local_ranks * s->external_part.node;
    free(p->master_addr);
    p->master_addr = xstrdup(s->external_part.master_addr);
    env_set(&p->env, "WORLD_SIZE", "%d", world);
    env_set(&p->env, "ROLE_WORLD_SIZE", "%d", world);
    env_set(&p->env, "GROUP_WORLD_SIZE", "%d", s->external_part.nodes);
    env_set(&p->env, "MASTER_ADDR", "%s", p->master_addr);
    for (int i = 0; i < local_ranks; i++) {
        char ***env = &p->ranks[i].env;
        env_set(env, "RANK", "%d", p->first_rank + i);
        env_set(env, "ROLE_RANK", "%d", p->first_rank + i);
        env_set(env, "GROUP_RANK", "%d", s->external_part.node);
        env_set(env, "NODE_RANK", "%d", s->external_part.node);
    }
}

void plan_partial_program(struct plan_rank *r, int world_size, const struct launch_spec *s,
                          char *const *base_env)
{
    const struct launch_app *a = NULL;
    int first = world_size;
    for (int i = s->app_count - 1; i >= 0 && r->rank < first; i--) {
        a = &s->apps[i];
        first -= a->ranks;
    }
    if (!a || r->rank < first)
        return;
    strv_free(r->argv); /* from an earlier call */
    r->argv = strv_copy(a->argv);
    free(r->wdir);
    r->wdir = a->wdir ? xstrdup(a->wdir) : NULL;
    for (size_t i = 0; a->env && a->env[i]; i++) {
        size_t len = strcspn(a->env[i], "=");
        AUTO(free) char *name = xstrndup(a->env[i], len);
        const char *value = a->env[i][len] ? a->env[i] + len + 1 : env_get(base_env, name);
        if (value)
            env_set(&r->env, name, "%s", value);
    }
}
