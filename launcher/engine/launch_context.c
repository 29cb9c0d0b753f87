#include "launcher/engine/launch_context.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "common/log.h"
#include "common/own_process.h"
#include "launcher/engine/engine.h"
#include "launcher/plan/env.h"

/* Raises the limit, since this process needs some descriptors for each rank. The ranks keep the
 * user's limit, since the guardian was forked before. */
static void raise_descriptor_limit(void)
{
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) < 0)
        return;
    r.rlim_cur = r.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &r); /* if this fails, a later open() fails with a reason */
}

int launch_context_open(struct launch_context **out, uv_loop_t *loop, struct guardian *g,
                        struct err *e)
{
    raise_descriptor_limit();
    signal(SIGPIPE, SIG_IGN); /* a failed write shows that the peer has closed its end */
    AUTO(launch_context) struct launch_context *l = xzalloc(sizeof *l);
    l->env = strv_copy(environ);
    int rc = topo_load(&l->topo, e);
    if (rc == 0)
        rc = engine_open(&l->engine, loop, g, e);
    if (rc < 0)
        return rc;
    *out = TAKE(l);
    return 0;
}

void launch_context_close(struct launch_context *l)
{
    if (!l)
        return;
    engine_close(l->engine);
    pmix_server_close(l->pmix);
    topo_free(l->topo);
    strv_free(l->env);
    free(l);
}

void launch_context_choose_engine(struct launch_spec *s, char *const *env)
{
    AUTO(free) char *mpirun = NULL;
    if (!s->remote_engine && !plan_spec_is_local(s) &&
        own_process_find_program(&mpirun, "mpirun", env_get(env, "PATH")) < 0)
        s->remote_engine = "ssh";
}

int launch_context_plan(struct plan **out, const struct launch_context *l,
                        const struct launch_spec *s, struct err *e)
{
    struct launch_spec chosen = *s;
    launch_context_choose_engine(&chosen, l->env);
    int rc = plan_make(out, &chosen, l->topo, l->env, e);
    if (rc == 0 && !s->engine && !plan_is_local(*out))
        log_info("engine %s starts the ranks on other nodes%s", (*out)->engine,
                 strcmp((*out)->engine, "ssh") == 0 ? ", since PATH has no mpirun" : "");
    return rc;
}

int launch_context_join_pmix(struct pmix_server_job **out, struct launch_context *l,
                             const struct job_map *map, const struct plan *p,
                             const struct rank_events *ev, void *arg, struct err *e)
{
    const char *shm_dir = env_get(p->env, "OMPI_MCA_btl_vader_backing_directory");
    int rc = 0;
    if (!l->pmix)
        rc = pmix_server_open(&l->pmix, engine_loop(l->engine), topo_hwloc(l->topo), e);
    return rc < 0 ? rc : pmix_server_join(out, l->pmix, map, shm_dir, ev, arg, e);
}
