/* pmix_callbacks - what ranks ask of PMIx's server. All of it runs on PMIx's thread. What is
 * answered with PMIX_OPERATION_SUCCEEDED needs no call of its callback. */
#include <string.h>

#include "common/clock.h"
#include "launcher/plan/env.h"
#include "launcher/pmi/pmix_server_internal.h"

static struct pmix_server *the_server;

/* It makes no shared memory before this is answered. */
static pmix_status_t on_connected(const pmix_proc_t *p, void *job, pmix_info_t *info, size_t n,
                                  pmix_op_cbfunc_t done, void *arg)
{
    struct pmix_server_job *j = job;
    if (!atomic_exchange(&j->met, true))
        session_dir_job_begins(j->owner->dir, j->name, j->segments);
    atomic_fetch_add(&j->inside, 1);
    pmix_server_send(j->owner, &(struct pmix_event){.what = JOINED, .from = *p});
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_finalized(const pmix_proc_t *p, void *job, pmix_op_cbfunc_t done, void *arg)
{
    atomic_fetch_sub(&((struct pmix_server_job *)job)->inside, 1);
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_abort(const pmix_proc_t *p, void *job, int code, const char message[],
                              pmix_proc_t *whom, size_t whom_n, pmix_op_cbfunc_t done, void *arg)
{
    pmix_server_send(((struct pmix_server_job *)job)->owner,
                     &(struct pmix_event){.what = ABORTED, .from = *p, .code = code});
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_events_wanted(pmix_status_t *codes, size_t codes_n,
                                      const pmix_info_t info[], size_t n, pmix_op_cbfunc_t done,
                                      void *arg)
{
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_events_unwanted(pmix_status_t *codes, size_t codes_n, pmix_op_cbfunc_t done,
                                        void *arg)
{
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_event(pmix_status_t code, const pmix_proc_t *source,
                              pmix_data_range_t range, pmix_info_t info[], size_t n,
                              pmix_op_cbfunc_t done, void *arg)
{
    return PMIX_OPERATION_SUCCEEDED;
}

/* All ranks of one node: libpmix fences them itself and asks us only for what others would add. */
static pmix_status_t on_fence(const pmix_proc_t procs[], size_t procs_n, const pmix_info_t info[],
                              size_t n, char *data, size_t len, pmix_modex_cbfunc_t done, void *arg)
{
    done(PMIX_SUCCESS, data, len, arg, NULL, NULL);
    return PMIX_SUCCESS;
}

static pmix_status_t on_direct_modex(const pmix_proc_t *p, const pmix_info_t info[], size_t n,
                                     pmix_modex_cbfunc_t done, void *arg)
{
    return PMIX_ERR_NOT_FOUND; /* a rank that is not of this node */
}

/* libpmix itself keeps the ranks' wishes to have files removed when they are gone (Open MPI's
 * segments in /dev/shm), but only where the host has this function. Nothing else is served. */
static pmix_status_t on_job_control(const pmix_proc_t *requestor, const pmix_proc_t targets[],
                                    size_t targets_n, const pmix_info_t directives[], size_t n,
                                    pmix_info_cbfunc_t done, void *arg)
{
    return PMIX_ERR_NOT_SUPPORTED;
}

static pmix_status_t done_is_done(pmix_status_t status)
{
    return status == PMIX_SUCCESS ? PMIX_OPERATION_SUCCEEDED : status;
}

static pmix_status_t on_publish(const pmix_proc_t *p, const pmix_info_t info[], size_t n,
                                pmix_op_cbfunc_t done, void *arg)
{
    return done_is_done(pmix_publish_add(the_server->names, p, info, n));
}

static pmix_status_t on_lookup(const pmix_proc_t *p, char **keys, const pmix_info_t info[],
                               size_t n, pmix_lookup_cbfunc_t done, void *arg)
{
    int64_t until_ms = pmix_publish_deadline(info, n, clock_ms());
    struct pmix_publish_lookup l = {p, keys, until_ms, done, arg};
    if (!pmix_publish_lookup(the_server->names, &l) && until_ms < INT64_MAX)
        pmix_server_send(the_server,
                         &(struct pmix_event){.what = WAITS, .from = *p, .until_ms = until_ms});
    return PMIX_SUCCESS;
}

static pmix_status_t on_unpublish(const pmix_proc_t *p, char **keys, const pmix_info_t info[],
                                  size_t n, pmix_op_cbfunc_t done, void *arg)
{
    return done_is_done(pmix_publish_remove(the_server->names, p, keys));
}

/* Open MPI 4 tells a refused spawn to the root only; those that spawn with it wait for ever for
 * its news of the new ranks. So it gets ranks, whose word about themselves (at the port that it
 * waits at: ompi/dpm/dpm.c) is none: that is passed on, and is an error everywhere. */
static bool refuse_all(const pmix_proc_t *root, const pmix_app_t *app)
{
    const char *port = app->env ? env_get(app->env, "OMPI_PARENT_PORT") : NULL;
    if (!port || !env_get(app->env, "OMPI_MCA_orte_ess_num_procs")) /* 5 has no ORTE */
        return false;
    AUTO(free) char *key = xasprintf("%s:connect", port);
    pmix_persistence_t once = PMIX_PERSIST_FIRST_READ;
    pmix_info_t word[2];
    PMIX_INFO_LOAD(&word[0], key, "refused", PMIX_STRING);
    PMIX_INFO_LOAD(&word[1], PMIX_PERSISTENCE, &once, PMIX_PERSIST);
    pmix_status_t rc = pmix_publish_add(the_server->names, root, word, COUNT_OF(word));
    PMIX_INFO_DESTRUCT(&word[0]);
    return rc == PMIX_SUCCESS;
}

/* MPI_Comm_spawn. Of programs without MPI nothing more is heard, so a refusal has to do. */
static pmix_status_t on_spawn(const pmix_proc_t *p, const pmix_info_t info[], size_t n,
                              const pmix_app_t apps[], size_t apps_n, pmix_spawn_cbfunc_t done,
                              void *arg)
{
    bool mpi = apps_n > 0;
    for (size_t i = 0; i < n; i++)
        mpi = mpi && !PMIX_CHECK_KEY(&info[i], PMIX_NON_PMI);
    pmix_server_send(the_server, &(struct pmix_event){.what = SPAWNS, .from = *p});
    if (!mpi || !refuse_all(p, &apps[0]))
        return PMIX_ERR_NOT_SUPPORTED;
    AUTO(free) char *nspace = xstrdup(p->nspace); /* any that it knows */
    done(PMIX_SUCCESS, nspace, arg);
    return PMIX_SUCCESS;
}

/* MPI_Comm_accept and its kind, when all who take part have come. They are all of this node. */
static pmix_status_t on_connect(const pmix_proc_t procs[], size_t procs_n, const pmix_info_t info[],
                                size_t n, pmix_op_cbfunc_t done, void *arg)
{
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_server_module_t module = {
    .client_finalized = on_finalized,
    .abort = on_abort,
    .fence_nb = on_fence,
    .direct_modex = on_direct_modex,
    .publish = on_publish,
    .lookup = on_lookup,
    .unpublish = on_unpublish,
    .spawn = on_spawn,
    .connect = on_connect,
    .disconnect = on_connect,
    .register_events = on_events_wanted,
    .deregister_events = on_events_unwanted,
    .notify_event = on_event,
    .job_control = on_job_control,
    .client_connected2 = on_connected,
};

pmix_server_module_t *pmix_callbacks(struct pmix_server *r)
{
    the_server = r;
    return &module;
}
