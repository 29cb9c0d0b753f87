#include "launcher/share.h"

#include <errno.h>
#include <string.h>

#include "launcher/env.h"

void share_apply(struct plan *p, const struct launch_spec *s)
{
    int here = p->world_size, world = here * s->share.nodes;
    if (s->share.nodes == 0)
        return;
    p->first_rank = here * s->share.node;
    free(p->master_addr);
    p->master_addr = xstrdup(s->share.master_addr);
    env_set(&p->env, "WORLD_SIZE", "%d", world);
    env_set(&p->env, "ROLE_WORLD_SIZE", "%d", world);
    env_set(&p->env, "GROUP_WORLD_SIZE", "%d", s->share.nodes);
    env_set(&p->env, "MASTER_ADDR", "%s", p->master_addr);
    for (int i = 0; i < here; i++) {
        char ***env = &p->ranks[i].env;
        env_set(env, "RANK", "%d", p->first_rank + i);
        env_set(env, "ROLE_RANK", "%d", p->first_rank + i);
        env_set(env, "GROUP_RANK", "%d", s->share.node);
        env_set(env, "NODE_RANK", "%d", s->share.node);
    }
}

static void set_app(struct plan_rank *r, const struct launch_app *a, char *const *base)
{
    r->argv = strv_copy(a->argv);
    for (size_t i = 0; a->env && a->env[i]; i++) {
        size_t len = strcspn(a->env[i], "=");
        AUTO(free) char *name = xstrndup(a->env[i], len);
        const char *value = a->env[i][len] ? a->env[i] + len + 1 : env_get(base, name);
        if (value)
            env_set(&r->env, name, "%s", value);
    }
}

int share_apps(struct plan *p, const struct launch_spec *s, char *const *base_env, struct err *e)
{
    int rank = p->world_size;
    for (int i = s->app_count - 1; i >= 0; i--) {
        if (s->apps[i].ranks >= rank)
            return err_set(e, -EINVAL, "the job has %d ranks, and its programs ask for more",
                           p->world_size);
        for (int k = 0; k < s->apps[i].ranks; k++)
            set_app(&p->ranks[--rank], &s->apps[i], base_env);
    }
    return 0;
}
