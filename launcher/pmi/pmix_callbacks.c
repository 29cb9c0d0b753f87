/* pmix_callbacks - handles requests of ranks to the PMIx server. All functions run on libpmix's
 * thread. If a function returns PMIX_OPERATION_SUCCEEDED, the request's callback is not called. */
#include <string.h>

#include "common/clock.h"
#include "launcher/plan/env.h"
#include "launcher/pmi/pmix_server_internal.h"

static struct pmix_server *the_server; /* mutable static data: libpmix has one server per process */

/* A rank has connected. It creates no shared memory before this request is answered. */
static pmix_status_t on_connected(const pmix_proc_t *p, void *job, pmix_info_t *info, size_t n,
                                  pmix_op_cbfunc_t done, void *arg)
{
    struct pmix_server_job *j = job;
    if (!atomic_exchange(&j->any_connected, true))
        session_dir_job_begins(j->owner->dir, j->name, j->shm_dir);
    pmix_server_send(the_server, &(struct pmix_event){.type = PMIX_EVENT_CONNECTED, .from = *p});
    return PMIX_OPERATION_SUCCEEDED;
}

/* A rank has called PMIx_Finalize. If the rank was killed, its job may already be freed, so `job`
 * is not used. The same is true for on_abort(). */
static pmix_status_t on_finalized(const pmix_proc_t *p, void *job, pmix_op_cbfunc_t done, void *arg)
{
    pmix_server_send(the_server, &(struct pmix_event){.type = PMIX_EVENT_FINALIZED, .from = *p});
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_abort(const pmix_proc_t *p, void *job, int code, const char message[],
                              pmix_proc_t *whom, size_t whom_n, pmix_op_cbfunc_t done, void *arg)
{
    pmix_server_send(the_server,
                     &(struct pmix_event){.type = PMIX_EVENT_ABORTED, .from = *p, .code = code});
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_register_events(pmix_status_t *codes, size_t codes_n,
                                        const pmix_info_t info[], size_t n, pmix_op_cbfunc_t done,
                                        void *arg)
{
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_deregister_events(pmix_status_t *codes, size_t codes_n,
                                          pmix_op_cbfunc_t done, void *arg)
{
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_notify_event(pmix_status_t code, const pmix_proc_t *source,
                                     pmix_data_range_t range, pmix_info_t info[], size_t n,
                                     pmix_op_cbfunc_t done, void *arg)
{
    return PMIX_OPERATION_SUCCEEDED;
}

/* A fence needs no action: all ranks are on one node, and libpmix fences them itself. It asks
 * drover only for the data of other nodes. */
static pmix_status_t on_fence(const pmix_proc_t procs[], size_t procs_n, const pmix_info_t info[],
                              size_t n, char *data, size_t len, pmix_modex_cbfunc_t done, void *arg)
{
    done(PMIX_SUCCESS, data, len, arg, NULL, NULL);
    return PMIX_SUCCESS;
}

static pmix_status_t on_direct_modex(const pmix_proc_t *p, const pmix_info_t info[], size_t n,
                                     pmix_modex_cbfunc_t done, void *arg)
{
    return PMIX_ERR_NOT_FOUND; /* the rank is not on this node */
}

/* Does nothing. Only if this function exists, libpmix registers files that it removes when a rank
 * has ended (Open MPI's segments in /dev/shm). */
static pmix_status_t on_job_control(const pmix_proc_t *requestor, const pmix_proc_t targets[],
                                    size_t targets_n, const pmix_info_t directives[], size_t n,
                                    pmix_info_cbfunc_t done, void *arg)
{
    return PMIX_ERR_NOT_SUPPORTED;
}

static pmix_status_t without_callback(pmix_status_t status)
{
    return status == PMIX_SUCCESS ? PMIX_OPERATION_SUCCEEDED : status;
}

static pmix_status_t on_publish(const pmix_proc_t *p, const pmix_info_t info[], size_t n,
                                pmix_op_cbfunc_t done, void *arg)
{
    return without_callback(pmix_publish_add(the_server->published, p, info, n));
}

static pmix_status_t on_lookup(const pmix_proc_t *p, char **keys, const pmix_info_t info[],
                               size_t n, pmix_lookup_cbfunc_t done, void *arg)
{
    int64_t until_ms = pmix_publish_deadline(info, n, clock_ms());
    struct pmix_publish_lookup l = {p, keys, until_ms, done, arg};
    if (!pmix_publish_lookup(the_server->published, &l) && until_ms < INT64_MAX)
        pmix_server_send(the_server, &(struct pmix_event){.type = PMIX_EVENT_LOOKUP_WAITS,
                                                          .from = *p,
                                                          .until_ms = until_ms});
    return PMIX_SUCCESS;
}

static pmix_status_t on_unpublish(const pmix_proc_t *p, char **keys, const pmix_info_t info[],
                                  size_t n, pmix_op_cbfunc_t done, void *arg)
{
    return without_callback(pmix_publish_remove(the_server->published, p, keys));
}

/* Makes a spawn fail on all ranks that take part. Open MPI 4 reports a refused spawn only to the
 * root. The other ranks then wait forever for the root's message about the new ranks. So this
 * function publishes invalid data of new ranks, under the port at which the root waits
 * (ompi/dpm/dpm.c). The root passes the data on, and every rank gets an error. */
static bool fail_spawn_everywhere(const pmix_proc_t *root, const pmix_app_t *app)
{
    const char *port = app->env ? env_get(app->env, "OMPI_PARENT_PORT") : NULL;
    if (!port || !env_get(app->env, "OMPI_MCA_orte_ess_num_procs")) /* Open MPI 5 has no ORTE */
        return false;
    AUTO(free) char *key = xasprintf("%s:connect", port);
    pmix_persistence_t once = PMIX_PERSIST_FIRST_READ;
    pmix_info_t info[2];
    PMIX_INFO_LOAD(&info[0], key, "refused", PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_PERSISTENCE, &once, PMIX_PERSIST);
    pmix_status_t rc = pmix_publish_add(the_server->published, root, info, COUNT_OF(info));
    PMIX_INFO_DESTRUCT(&info[0]);
    return rc == PMIX_SUCCESS;
}

/* Refuses MPI_Comm_spawn. For programs without MPI the refusal is enough, since their ranks
 * exchange no further message. */
static pmix_status_t on_spawn(const pmix_proc_t *p, const pmix_info_t info[], size_t n,
                              const pmix_app_t apps[], size_t apps_n, pmix_spawn_cbfunc_t done,
                              void *arg)
{
    bool mpi = apps_n > 0;
    for (size_t i = 0; i < n; i++)
        mpi = mpi && !PMIX_CHECK_KEY(&info[i], PMIX_NON_PMI);
    pmix_server_send(the_server,
                     &(struct pmix_event){.type = PMIX_EVENT_SPAWN_REFUSED, .from = *p});
    if (!mpi || !fail_spawn_everywhere(p, &apps[0]))
        return PMIX_ERR_NOT_SUPPORTED;
    AUTO(free) char *nspace = xstrdup(p->nspace); /* any namespace that libpmix knows would do */
    done(PMIX_SUCCESS, nspace, arg);
    return PMIX_SUCCESS;
}

/* Handles MPI_Comm_accept and similar calls, after all participating ranks have made the call. All
 * these ranks are on this node. */
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
    .register_events = on_register_events,
    .deregister_events = on_deregister_events,
    .notify_event = on_notify_event,
    .job_control = on_job_control,
    .client_connected2 = on_connected,
};

pmix_server_module_t *pmix_callbacks(struct pmix_server *r)
{
    the_server = r;
    return &module;
}
