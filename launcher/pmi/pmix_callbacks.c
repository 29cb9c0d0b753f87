/* pmix_callbacks - handles requests of ranks to the PMIx server. All functions run on libpmix's
 * thread. If a function returns PMIX_OPERATION_SUCCEEDED, the request's callback is not called. */
#include <string.h>

#include "common/log.h"
#include "launcher/plan/env.h"
#include "launcher/pmi/pmix_server_internal.h"

static struct pmix_server *the_server; /* mutable static data: libpmix has one server per process */

/* ---- events of a rank ----------------------------------------------------------------------- */

static pmix_status_t send_event(enum rank_event type, const pmix_proc_t *from, int code)
{
    pmix_server_send(the_server, &(struct pmix_event){.type = type, .from = *from, .code = code});
    return PMIX_OPERATION_SUCCEEDED;
}

/* A rank has connected. It creates no shared memory before this request is answered. */
static pmix_status_t on_connected(const pmix_proc_t *p, void *job, pmix_info_t *info, size_t n,
                                  pmix_op_cbfunc_t done, void *arg)
{
    struct pmix_server_job *j = job;
    if (!atomic_exchange(&j->any_connected, true))
        session_dir_job_begins(j->owner->dir, j->name, j->shm_dir);
    return send_event(RANK_JOINED, p, 0);
}

/* A rank has called PMIx_Finalize. If the rank was killed, its job may already be freed, so `job`
 * is not used. The same is true for on_abort(). */
static pmix_status_t on_finalized(const pmix_proc_t *p, void *job, pmix_op_cbfunc_t done, void *arg)
{
    return send_event(RANK_FINALIZED, p, 0);
}

/* Explains a failure that libpmix's own messages do not explain. Says nothing if the server's
 * libpmix is as new as that of any rank. */
static void explain_group_failure(struct pmix_server *r)
{
    const char *version = PMIx_Get_version(); /* "OpenPMIx 4.2.2 (…)" */
    version += strcspn(version, "0123456789");
    if (r->group_asked && *version < '5')
        log_warn("PMIx: a rank called MPI_Abort after it had asked for a group (MPI sessions): "
                 "libpmix 5 of a rank's MPI cannot read what libpmix %.*s answers; "
                 "try: " PMIX_LOADER_ENV "=/…/libpmix.so.2, the file of the ranks' MPI",
                 (int)strcspn(version, " ,"), version);
    r->group_asked = false;
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

/* Does nothing. Only if this function exists, libpmix registers files that it removes when a rank
 * has ended (Open MPI's segments in /dev/shm). */
static pmix_status_t on_job_control(const pmix_proc_t *requestor, const pmix_proc_t targets[],
                                    size_t targets_n, const pmix_info_t directives[], size_t n,
                                    pmix_info_cbfunc_t done, void *arg)
{
    return PMIX_ERR_NOT_SUPPORTED;
}

/* ---- requests that the exchange answers ----------------------------------------------------- */

/* Passes a request of `from` to the loop. */
static void submit(struct pmix_request *q, const pmix_proc_t *from)
{
    pmix_server_send(the_server, &(struct pmix_event){.from = *from, .request = q});
}

/* Does the same. `done` gets the answer. `q` is NULL if drover cannot serve the request. */
static pmix_status_t submit_for(struct pmix_request *q, const pmix_proc_t *from,
                                enum pmix_answer answer, union pmix_done done, void *arg)
{
    if (!q)
        return PMIX_ERR_NOT_SUPPORTED;
    q->answer = answer;
    q->done = done;
    q->arg = arg;
    submit(q, from);
    return PMIX_SUCCESS;
}

/* Makes a fence, which the caller submits. Returns NULL if drover cannot serve these
 * participants. */
static struct pmix_request *new_fence(enum exchange_kind kind, const pmix_proc_t procs[],
                                      size_t procs_n)
{
    AUTO(pmix_request) struct pmix_request *q = pmix_request_new(EXCHANGE_FENCE);
    q->m.kind = kind;
    return procs_n > 0 && pmix_request_set_procs(q, procs, procs_n) ? TAKE(q) : NULL;
}

/* libpmix calls this when all participants of this node have arrived. It does not call this if all
 * participants are on this node. */
static pmix_status_t on_fence(const pmix_proc_t procs[], size_t procs_n, const pmix_info_t info[],
                              size_t n, char *data, size_t len, pmix_modex_cbfunc_t done, void *arg)
{
    struct pmix_request *q = new_fence(EXCHANGE_MODEX, procs, procs_n);
    if (q)
        pmix_request_take_data(q, data, len);
    return submit_for(q, procs, PMIX_ANSWER_DATA, (union pmix_done){.data = done}, arg);
}

static pmix_status_t on_direct_modex(const pmix_proc_t *p, const pmix_info_t info[], size_t n,
                                     pmix_modex_cbfunc_t done, void *arg)
{
    if (p->rank > PMIX_RANK_VALID)
        return PMIX_ERR_NOT_FOUND; /* the data of the job, which this server has */
    struct pmix_request *q = pmix_request_new(EXCHANGE_GET);
    q->m.rank = (int)p->rank;
    return submit_for(q, p, PMIX_ANSWER_DATA, (union pmix_done){.data = done}, arg);
}

static bool is_directive(const pmix_info_t *i)
{
    return strncmp(i->key, "pmix.", 5) == 0; /* reserved by the standard */
}

/* Sends one message per name. libpmix gets the answer to the last one, which fails if one before
 * fails. */
static pmix_status_t on_publish(const pmix_proc_t *p, const pmix_info_t info[], size_t n,
                                pmix_op_cbfunc_t done, void *arg)
{
    bool once = false;
    struct pmix_request *first = NULL, **end = &first, *last = NULL;
    for (size_t i = 0; i < n; i++)
        if (PMIX_CHECK_KEY(&info[i], PMIX_PERSISTENCE))
            once = info[i].value.data.persist == PMIX_PERSIST_FIRST_READ;
    for (size_t i = 0; i < n; i++) {
        if (is_directive(&info[i]) ||
            pmix_request_publish(end, p, info[i].key, &info[i].value, once) < 0)
            continue;
        if (last)
            last->then = *end;
        last = *end;
        end = &last->next;
    }
    if (!last)
        return PMIX_ERR_BAD_PARAM;
    for (struct pmix_request *q = first, *next; q != last; q = next) {
        next = q->next;
        q->next = NULL;
        submit(q, p);
    }
    return submit_for(last, p, PMIX_ANSWER_STATUS, (union pmix_done){.status = done}, arg);
}

static pmix_status_t on_lookup(const pmix_proc_t *p, char **keys, const pmix_info_t info[],
                               size_t n, pmix_lookup_cbfunc_t done, void *arg)
{
    if (!keys || !*keys)
        return PMIX_ERR_BAD_PARAM;
    struct pmix_request *q = pmix_request_new(EXCHANGE_LOOKUP);
    q->m.rank = (int)p->rank;
    for (; *keys; keys++)
        pmix_request_add_key(q, *keys);
    pmix_request_set_wait(q, info, n);
    return submit_for(q, p, PMIX_ANSWER_NAMES, (union pmix_done){.names = done}, arg);
}

static pmix_status_t on_unpublish(const pmix_proc_t *p, char **keys, const pmix_info_t info[],
                                  size_t n, pmix_op_cbfunc_t done, void *arg)
{
    struct pmix_request *q = pmix_request_new(EXCHANGE_UNPUBLISH);
    q->m.rank = (int)p->rank;
    for (; keys && *keys; keys++)
        pmix_request_add_key(q, *keys);
    return submit_for(q, p, PMIX_ANSWER_STATUS, (union pmix_done){.status = done}, arg);
}

/* The rank exits when it is answered. Ranks on other nodes that lose it may abort, too, and the
 * launcher must hear of this abort first. So the launcher gives the answer: the names that the rank
 * has published are removed. This request reaches it after the event. */
static pmix_status_t on_abort(const pmix_proc_t *p, void *job, int code, const char message[],
                              pmix_proc_t *whom, size_t whom_n, pmix_op_cbfunc_t done, void *arg)
{
    explain_group_failure(the_server);
    (void)send_event(RANK_ABORTED, p, code);
    return on_unpublish(p, NULL, NULL, 0, done, arg);
}

/* MPI_Comm_accept and similar calls, after all participants of this node have made the call. */
static pmix_status_t on_connect(const pmix_proc_t procs[], size_t procs_n, const pmix_info_t info[],
                                size_t n, pmix_op_cbfunc_t done, void *arg)
{
    return submit_for(new_fence(EXCHANGE_CONNECT, procs, procs_n), procs, PMIX_ANSWER_STATUS,
                      (union pmix_done){.status = done}, arg);
}

static pmix_status_t on_disconnect(const pmix_proc_t procs[], size_t procs_n,
                                   const pmix_info_t info[], size_t n, pmix_op_cbfunc_t done,
                                   void *arg)
{
    return submit_for(new_fence(EXCHANGE_DISCONNECT, procs, procs_n), procs, PMIX_ANSWER_STATUS,
                      (union pmix_done){.status = done}, arg);
}

/* Copies the data that the members of this node have for the others. */
static void take_endpoints(struct pmix_request *q, const pmix_info_t info[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const pmix_byte_object_t *b = &info[i].value.data.bo;
        if (PMIX_CHECK_KEY(&info[i], PMIX_GROUP_ENDPT_DATA) && b->size > 0 && !q->data)
            pmix_request_take_data(q, memcpy(xcalloc(1, b->size), b->bytes, b->size), b->size);
    }
}

static bool is_local_only(const pmix_info_t info[], size_t n)
{
    size_t i = 0;
    while (i < n && !PMIX_CHECK_KEY(&info[i], PMIX_GROUP_LOCAL_ONLY))
        i++;
    return i < n;
}

/* A group is created or destroyed, after all its members of this node have made the call. A rank
 * with libpmix 5 (Open MPI 5.0.11's own) cannot read what the server of libpmix 4.2 answers: its
 * call fails, since the members come before the context id in the newer message. */
static pmix_status_t on_group(pmix_group_operation_t op, char *name, const pmix_proc_t procs[],
                              size_t procs_n, const pmix_info_t info[], size_t n,
                              pmix_info_cbfunc_t done, void *arg)
{
    the_server->group_asked |= op == PMIX_GROUP_CONSTRUCT;
    /* libpmix 5.0 makes this call twice if it gets another answer, and then answers the ranks
     * twice */
    if (op == PMIX_GROUP_DESTRUCT && is_local_only(info, n))
        return PMIX_OPERATION_SUCCEEDED;
    struct pmix_request *q =
        new_fence(op == PMIX_GROUP_CONSTRUCT ? EXCHANGE_GROUP : EXCHANGE_UNGROUP, procs, procs_n);
    if (!q)
        return PMIX_ERR_NOT_SUPPORTED;
    pmix_request_add_key(q, name);
    take_endpoints(q, info, n);
    q->procs = memcpy(xcalloc(procs_n, sizeof *procs), procs, procs_n * sizeof *procs);
    q->proc_count = procs_n;
    return submit_for(q, procs, PMIX_ANSWER_GROUP, (union pmix_done){.group = done}, arg);
}

/* ---- spawn ---------------------------------------------------------------------------------- */

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
    const pmix_value_t refused = {.type = PMIX_STRING, .data.string = (char *)"refused"};
    struct pmix_request *q;
    if (pmix_request_publish(&q, root, key, &refused, true) < 0)
        return false;
    submit(q, root);
    return true;
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
    (void)send_event(RANK_SPAWNS, p, 0);
    if (!mpi || !fail_spawn_everywhere(p, &apps[0]))
        return PMIX_ERR_NOT_SUPPORTED;
    AUTO(free) char *nspace = xstrdup(p->nspace); /* any namespace that libpmix knows would do */
    done(PMIX_SUCCESS, nspace, arg);
    return PMIX_SUCCESS;
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
    .disconnect = on_disconnect,
    .register_events = on_register_events,
    .deregister_events = on_deregister_events,
    .notify_event = on_notify_event,
    .job_control = on_job_control,
    .group = on_group,
    .client_connected2 = on_connected,
};

pmix_server_module_t *pmix_callbacks(struct pmix_server *r)
{
    the_server = r;
    return &module;
}
