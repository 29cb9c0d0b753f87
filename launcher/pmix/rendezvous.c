#include "launcher/pmix/rendezvous.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/strbuf.h"
#include "launcher/node/workdir.h"
#include "launcher/plan/env.h"
#include "launcher/pmix/job_keys.h"
#include "launcher/pmix/libpmix.h"
#include "launcher/pmix/names.h"
#include "launcher/pmix/requests.h"

/* What a rank has done, on its way from PMIx's thread to the loop. */
struct news {
    struct news *next;
    enum { JOINED, ABORTED, WAITS, SPAWNS } what;
    pmix_proc_t from;
    int code;         /* of ABORTED */
    int64_t until_ms; /* of WAITS, which is for a name */
};

struct rendezvous {
    struct workdir *dir;
    pmix_topology_t topology; /* libpmix keeps a pointer to it */
    uv_async_t wake;
    uv_timer_t expiry; /* of who waits for a name */
    int open_handles;
    struct names *names;  /* PMIx's thread only: what answers ranks may not be called elsewhere */
    pthread_mutex_t lock; /* of `news` */
    struct news *news, **news_end;
    struct rendezvous_job *jobs;  /* the loop's thread only */
    struct rendezvous_job *spare; /* of one rank that never came: the server knows them still */
    struct requests pending;      /* nobody waits for them before the end */
};

struct rendezvous_job {
    struct rendezvous_job *next;
    struct rendezvous *owner;
    pmix_nspace_t name;
    int ranks;
    char *node, *segments; /* where it runs; where its shared memory is */
    bool known, expected;  /* to the server; so is a rank */
    atomic_bool met;       /* a rank has come */
    char **env;            /* of every rank, but for its number */
    struct requests joining;
    pmix_info_t *info; /* what they tell the server; NULL once they are answered */
    size_t info_n;
    struct rendezvous_events ev;
    void *arg;
};

/* The one of this process: libpmix has one server too, and its calls for names bring nothing of
 * ours with them. */
static struct rendezvous *the_server;

static int failed(struct err *e, const char *what, pmix_status_t rc)
{
    return err_set(e, -EIO, "PMIx: %s: %s", what, PMIx_Error_string(rc));
}

static void free_job(struct rendezvous_job *j)
{
    if (j->info)
        PMIX_INFO_FREE(j->info, j->info_n);
    strv_free(j->env);
    free(j->node);
    free(j->segments);
    free(j);
}
AUTO_DEFINE(job, struct rendezvous_job *, free_job)

/* ---- on PMIx's thread --------------------------------------------------------------------------
 * What is answered with PMIX_OPERATION_SUCCEEDED needs no call of its callback. */

static void send_news(struct rendezvous *r, const struct news *news)
{
    struct news *n = xzalloc(sizeof *n);
    *n = *news;
    pthread_mutex_lock(&r->lock);
    *r->news_end = n;
    r->news_end = &n->next;
    pthread_mutex_unlock(&r->lock);
    uv_async_send(&r->wake);
}

/* It makes no shared memory before this is answered. */
static pmix_status_t on_connected(const pmix_proc_t *p, void *job, pmix_info_t *info, size_t n,
                                  pmix_op_cbfunc_t done, void *arg)
{
    struct rendezvous_job *j = job;
    if (!atomic_exchange(&j->met, true))
        workdir_job_begins(j->owner->dir, j->name, j->segments);
    send_news(j->owner, &(struct news){.what = JOINED, .from = *p});
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_finalized(const pmix_proc_t *p, void *job, pmix_op_cbfunc_t done, void *arg)
{
    return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t on_abort(const pmix_proc_t *p, void *job, int code, const char message[],
                              pmix_proc_t *whom, size_t whom_n, pmix_op_cbfunc_t done, void *arg)
{
    send_news(((struct rendezvous_job *)job)->owner,
              &(struct news){.what = ABORTED, .from = *p, .code = code});
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
    return done_is_done(names_publish(the_server->names, p, info, n));
}

static pmix_status_t on_lookup(const pmix_proc_t *p, char **keys, const pmix_info_t info[],
                               size_t n, pmix_lookup_cbfunc_t done, void *arg)
{
    int64_t until_ms = names_until(info, n, clock_ms());
    struct names_lookup l = {p, keys, until_ms, done, arg};
    if (!names_lookup(the_server->names, &l) && until_ms < INT64_MAX)
        send_news(the_server, &(struct news){.what = WAITS, .from = *p, .until_ms = until_ms});
    return PMIX_SUCCESS;
}

static pmix_status_t on_unpublish(const pmix_proc_t *p, char **keys, const pmix_info_t info[],
                                  size_t n, pmix_op_cbfunc_t done, void *arg)
{
    return done_is_done(names_unpublish(the_server->names, p, keys));
}

/* Who waited has waited long enough, or not yet. */
static void on_expired(pmix_status_t status, void *arg)
{
    struct rendezvous *r = arg;
    int64_t next_ms = names_expire(r->names, clock_ms());
    if (next_ms < INT64_MAX)
        send_news(r, &(struct news){.what = WAITS, .until_ms = next_ms});
    requests_answer(PMIX_SUCCESS, &r->pending);
}

/* The job's namespace is gone. */
static void on_left(pmix_status_t status, void *arg)
{
    struct rendezvous_job *j = arg;
    names_forget(j->owner->names, j->name);
    requests_answer(status, &j->owner->pending);
    free_job(j);
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
    pmix_status_t rc = names_publish(the_server->names, root, word, COUNT_OF(word));
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
    send_news(the_server, &(struct news){.what = SPAWNS, .from = *p});
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

/* ---- on the loop -------------------------------------------------------------------------------
 */

static struct news *take_news(struct rendezvous *r)
{
    pthread_mutex_lock(&r->lock);
    struct news *all = r->news;
    r->news = NULL;
    r->news_end = &r->news;
    pthread_mutex_unlock(&r->lock);
    return all;
}

/* What answers ranks has to be called on PMIx's thread: a request about nobody leads there. */
static void on_expiry(uv_timer_t *t)
{
    struct rendezvous *r = t->data;
    pmix_proc_t nobody;
    PMIX_LOAD_PROCID(&nobody, "nobody", 0);
    requests_open(&r->pending);
    PMIx_server_deregister_client(&nobody, on_expired, r);
}

/* Has the names looked through then, or earlier. */
static void expect_expiry(struct rendezvous *r, int64_t until_ms)
{
    int64_t wait_ms = until_ms - clock_ms();
    uint64_t after_ms = wait_ms > 0 ? (uint64_t)wait_ms + 1 : 0;
    if (uv_is_active((uv_handle_t *)&r->expiry) && uv_timer_get_due_in(&r->expiry) <= after_ms)
        return;
    uv_timer_start(&r->expiry, on_expiry, after_ms, 0);
    uv_unref((uv_handle_t *)&r->expiry);
}

static void tell(struct rendezvous *r, const struct news *n)
{
    struct rendezvous_job *j = r->jobs;
    while (j && !PMIX_CHECK_NSPACE(j->name, n->from.nspace))
        j = j->next;
    if (n->what == WAITS)
        expect_expiry(r, n->until_ms);
    else if (j && n->what == SPAWNS)
        j->ev.spawns(j->arg, (int)n->from.rank);
    else if (j && n->what == ABORTED)
        j->ev.aborted(j->arg, (int)n->from.rank, n->code);
    else if (j)
        j->ev.joined(j->arg, (int)n->from.rank);
}

static void on_wake(uv_async_t *a)
{
    struct rendezvous *r = a->data;
    struct news *n = take_news(r);
    while (n) {
        tell(r, n);
        struct news *next = n->next;
        free(n);
        n = next;
    }
}

static void on_closed(uv_handle_t *h)
{
    struct rendezvous *r = h->data;
    if (--r->open_handles > 0)
        return;
    struct news *n = take_news(r);
    while (n) {
        struct news *next = n->next;
        free(n);
        n = next;
    }
    pthread_mutex_destroy(&r->lock);
    names_free(r->names);
    free(r);
}

static void close_handles(struct rendezvous *r)
{
    uv_close((uv_handle_t *)&r->wake, on_closed);
    uv_close((uv_handle_t *)&r->expiry, on_closed);
}

/* ---- the server --------------------------------------------------------------------------------
 */

/* What serves ranks of one node and one user best, where the user has not said otherwise. Not for
 * our children: they are told what the server chose. */
static const struct {
    const char *name, *value;
} settings[] = {
    {"PMIX_MCA_gds", "hash"},          /* by message: segments in shared memory cost more */
    {"PMIX_MCA_psec", "native"},       /* no daemon of munge's between */
    {"PMIX_MCA_prm", "^default,slurm"} /* talks to a resource manager */
};

static pmix_status_t init_with_settings(pmix_info_t *info, size_t n)
{
    bool unset[COUNT_OF(settings)];
    for (size_t i = 0; i < COUNT_OF(settings); i++)
        if ((unset[i] = !getenv(settings[i].name)))
            setenv(settings[i].name, settings[i].value, 1);
    pmix_status_t rc = PMIx_server_init(&module, info, n);
    for (size_t i = 0; i < COUNT_OF(settings); i++)
        if (unset[i])
            unsetenv(settings[i].name);
    return rc;
}

static pmix_status_t start_server(struct rendezvous *r)
{
    const char *dir = workdir_path(r->dir);
    pmix_rank_t rank = 0;
    bool yes = true;
    pmix_info_t info[6];
    size_t n = 0;
    PMIX_INFO_LOAD(&info[n++], PMIX_SERVER_TMPDIR, dir, PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_SYSTEM_TMPDIR, dir, PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_SERVER_NSPACE, strrchr(dir, '/') + 1, PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&info[n++], PMIX_SERVER_SHARE_TOPOLOGY, &yes, PMIX_BOOL);
    size_t owned = n;
    PMIX_INFO_CONSTRUCT(&info[n]);
    PMIX_LOAD_KEY(info[n].key, PMIX_TOPOLOGY2);
    info[n].value.type = PMIX_TOPO;
    info[n++].value.data.topo = &r->topology;
    the_server = r;
    pmix_status_t rc = init_with_settings(info, n);
    for (size_t i = 0; i < owned; i++)
        PMIX_INFO_DESTRUCT(&info[i]);
    return rc;
}

static struct rendezvous *new_rendezvous(uv_loop_t *loop, hwloc_topology_t topology, struct err *e)
{
    AUTO(free) struct rendezvous *r = xzalloc(sizeof *r);
    int rc = uv_async_init(loop, &r->wake, on_wake);
    if (rc < 0) {
        err_set(e, rc, "PMIx: %s", uv_strerror(rc));
        return NULL;
    }
    uv_timer_init(loop, &r->expiry);
    uv_unref((uv_handle_t *)&r->wake);
    r->wake.data = r->expiry.data = r;
    r->open_handles = 2;
    r->topology = (pmix_topology_t){.source = (char *)"hwloc", .topology = topology};
    r->news_end = &r->news;
    r->names = names_new();
    pthread_mutex_init(&r->lock, NULL);
    requests_init(&r->pending);
    return TAKE(r);
}

int rendezvous_open(struct rendezvous **out, uv_loop_t *loop, hwloc_topology_t topology,
                    struct err *e)
{
    AUTO(workdir) struct workdir *dir = NULL;
    if (libpmix_load(e) < 0)
        return -ENOENT;
    int rc = workdir_open(&dir, e);
    if (rc < 0)
        return err_wrap(e, "PMIx");
    struct rendezvous *r = new_rendezvous(loop, topology, e);
    if (!r)
        return e ? e->code : -EIO;
    r->dir = dir;
    pmix_status_t status = start_server(r);
    if (status != PMIX_SUCCESS) {
        close_handles(r);
        (void)failed(e, "start the server", status);
        return err_hint(
            e, "%s--no-pmix does without it",
            status == PMIX_ERR_INIT ? "it needs a network interface (ip link set lo up); " : "");
    }
    (void)TAKE(dir);
    *out = r;
    return 0;
}

/* The server frees it. */
static void forget(struct rendezvous_job *j)
{
    if (j->met)
        workdir_job_ends(j->owner->dir, j->name);
    requests_open(&j->owner->pending);
    PMIx_server_deregister_nspace(j->name, on_left, j);
}

void rendezvous_close(struct rendezvous *r)
{
    if (!r)
        return;
    assert(!r->jobs);
    for (struct rendezvous_job *j; (j = r->spare);) {
        r->spare = j->next;
        forget(j);
    }
    (void)requests_wait(&r->pending); /* it removes what the ranks have left in files */
    PMIx_server_finalize();
    the_server = NULL;
    workdir_close(r->dir);
    close_handles(r);
}

/* ---- jobs --------------------------------------------------------------------------------------
 */

/* Its thread takes what it is asked in turn: a rank that is started afterwards comes later. */
static void ask_to_register(struct rendezvous_job *j)
{
    struct requests *q = &j->joining;
    requests_init(q);
    requests_open(q);
    pmix_status_t rc =
        PMIx_server_register_nspace(j->name, j->ranks, j->info, j->info_n, requests_answer, q);
    requests_returned(q, rc);
}

static int register_job(struct rendezvous_job **out, struct rendezvous *r, const struct plan *p,
                        const char *segments, struct err *e)
{
    AUTO(job) struct rendezvous_job *j = xzalloc(sizeof *j);
    j->owner = r;
    j->ranks = p->world_size;
    j->node = xstrdup(p->nodes[0].name);
    j->segments = xstrdup(segments);
    PMIX_LOAD_NSPACE(j->name, p->job_id);
    int code = job_keys_make(&j->info, &j->info_n, p, workdir_path(r->dir), e);
    if (code < 0)
        return code;
    pmix_proc_t first;
    PMIX_LOAD_PROCID(&first, j->name, 0);
    pmix_status_t rc = PMIx_server_setup_fork(&first, &j->env);
    if (rc != PMIX_SUCCESS)
        return failed(e, "the ranks' environment", rc);
    ask_to_register(j);
    *out = TAKE(j);
    return 0;
}

/* One that does for the plan; NULL: there is none. */
static struct rendezvous_job *take_spare(struct rendezvous *r, const struct plan *p,
                                         const char *segments)
{
    struct rendezvous_job *j;
    while (p->world_size == 1 && (j = r->spare)) {
        r->spare = j->next;
        if (!j->met && strcmp(j->node, p->nodes[0].name) == 0 && strcmp(j->segments, segments) == 0)
            return j;
        forget(j);
    }
    return NULL;
}

int rendezvous_join(struct rendezvous_job **out, struct rendezvous *r, const struct plan *p,
                    const struct rendezvous_events *ev, void *arg, struct err *e)
{
    const char *segments = env_get(p->env, "OMPI_MCA_btl_vader_backing_directory");
    if (!segments)
        segments = getenv("OMPI_MCA_btl_vader_backing_directory");
    if (!segments)
        segments = "/dev/shm";
    struct rendezvous_job *j = take_spare(r, p, segments);
    int rc = j ? 0 : register_job(&j, r, p, segments, e);
    if (rc < 0)
        return rc;
    j->ev = *ev;
    j->arg = arg;
    j->next = r->jobs;
    r->jobs = j;
    *out = j;
    return 0;
}

int rendezvous_joined(struct rendezvous_job *j, struct err *e)
{
    if (!j->info)
        return 0;
    pmix_status_t rc = requests_wait(&j->joining);
    PMIX_INFO_FREE(j->info, j->info_n);
    j->info = NULL;
    j->known = rc == PMIX_SUCCESS;
    return j->known ? 0 : failed(e, "register the job", rc);
}

void rendezvous_leave(struct rendezvous_job *j)
{
    if (!j)
        return;
    struct rendezvous *r = j->owner;
    struct rendezvous_job **at = &r->jobs;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    (void)rendezvous_joined(j, NULL); /* whose failure has been told, or hides behind another */
    if (!j->known || !j->expected || j->met || j->ranks > 1) {
        forget(j);
        return;
    }
    j->next = r->spare;
    r->spare = j;
}

/* PMIx's thread takes what it is asked in turn: a rank that is started afterwards comes later. */
void rendezvous_expect(struct rendezvous_job *j, int rank, char ***env)
{
    struct requests *q = &j->joining;
    pmix_proc_t who;
    PMIX_LOAD_PROCID(&who, j->name, (pmix_rank_t)rank);
    env_set(env, "PMIX_RANK", "%d", rank);
    if (j->known) /* a spare */
        return;
    j->expected = true;
    requests_open(q);
    pmix_status_t rc =
        PMIx_server_register_client(&who, geteuid(), getegid(), j, requests_answer, q);
    requests_returned(q, rc);
}

char *const *rendezvous_env(const struct rendezvous_job *j)
{
    return j->env;
}
