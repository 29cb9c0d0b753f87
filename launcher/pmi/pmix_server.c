#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "launcher/plan/env.h"
#include "launcher/pmi/pmix_job_info.h"
#include "launcher/pmi/pmix_server_internal.h"

static int failed(struct err *e, const char *what, pmix_status_t rc)
{
    return err_set(e, -EIO, "PMIx: %s: %s", what, PMIx_Error_string(rc));
}

static void free_job(struct pmix_server_job *j)
{
    strv_free(j->env);
    free(j->node);
    free(j->segments);
    free(j);
}

/* ---- on PMIx's thread --------------------------------------------------------------------------
 */

void pmix_server_send(struct pmix_server *r, const struct pmix_event *news)
{
    AUTO(free) struct pmix_event *n = xzalloc(sizeof *n);
    *n = *news;
    pthread_mutex_lock(&r->lock);
    if (!r->deaf) {
        *r->news_end = TAKE(n);
        r->news_end = &(*r->news_end)->next;
        uv_async_send(&r->wake);
    }
    pthread_mutex_unlock(&r->lock);
}

/* Who waited has waited long enough, or not yet. */
static void on_expired(pmix_status_t status, void *arg)
{
    struct pmix_server *r = arg;
    int64_t next_ms = pmix_publish_expire(r->names, clock_ms());
    if (next_ms < INT64_MAX)
        pmix_server_send(r, &(struct pmix_event){.what = WAITS, .until_ms = next_ms});
    pmix_wait_answer(PMIX_SUCCESS, &r->pending);
}

/* The job's namespace is gone. */
static void on_left(pmix_status_t status, void *arg)
{
    struct pmix_server_job *j = arg;
    pmix_publish_drop_namespace(j->owner->names, j->name);
    pmix_wait_answer(status, &j->owner->pending);
    free_job(j);
}

/* ---- on the loop -------------------------------------------------------------------------------
 */

static struct pmix_event *take_news(struct pmix_server *r)
{
    pthread_mutex_lock(&r->lock);
    struct pmix_event *all = r->news;
    r->news = NULL;
    r->news_end = &r->news;
    pthread_mutex_unlock(&r->lock);
    return all;
}

/* What answers ranks has to be called on PMIx's thread: a request about nobody leads there. */
static void on_expiry(uv_timer_t *t)
{
    struct pmix_server *r = t->data;
    pmix_proc_t nobody;
    PMIX_LOAD_PROCID(&nobody, "nobody", 0);
    pmix_wait_open(&r->pending);
    PMIx_server_deregister_client(&nobody, on_expired, r);
}

/* Has the names looked through then, or earlier. */
static void expect_expiry(struct pmix_server *r, int64_t until_ms)
{
    int64_t wait_ms = until_ms - clock_ms();
    uint64_t after_ms = wait_ms > 0 ? (uint64_t)wait_ms + 1 : 0;
    if (uv_is_active((uv_handle_t *)&r->expiry) && uv_timer_get_due_in(&r->expiry) <= after_ms)
        return;
    uv_timer_start(&r->expiry, on_expiry, after_ms, 0);
    uv_unref((uv_handle_t *)&r->expiry);
}

static void tell(struct pmix_server *r, const struct pmix_event *n)
{
    struct pmix_server_job *j = r->jobs;
    if (n->what == JOINED)
        tcp_quickack_rearm(&r->acks);
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
    struct pmix_server *r = a->data;
    struct pmix_event *n = take_news(r);
    while (n) {
        tell(r, n);
        struct pmix_event *next = n->next;
        free(n);
        n = next;
    }
}

static void on_closed(uv_handle_t *h)
{
    struct pmix_server *r = h->data;
    if (--r->open_handles > 0)
        return;
    struct pmix_event *n = take_news(r);
    while (n) {
        struct pmix_event *next = n->next;
        free(n);
        n = next;
    }
    tcp_quickack_free(&r->acks);
    if (r->deaf)
        return;
    pthread_mutex_destroy(&r->lock);
    pmix_publish_free(r->names);
    free(r->host);
    free(r);
}

static void close_handles(struct pmix_server *r)
{
    uv_close((uv_handle_t *)&r->wake, on_closed);
    uv_close((uv_handle_t *)&r->expiry, on_closed);
    uv_close((uv_handle_t *)&r->acks.timer, on_closed);
    if (r->lobby.port > 0)
        uv_close((uv_handle_t *)&r->lobby.knock, on_closed);
}

/* ---- the server --------------------------------------------------------------------------------
 */

/* What serves ranks of one node and one user best, where the user has not said otherwise. Ranks are
 * told by the variable behind it. */
static const struct {
    const char *name, *value, *told_as;
} settings[] = {
    {"PMIX_MCA_gds", "hash", "PMIX_GDS_MODULE"},       /* by message: shared memory costs more */
    {"PMIX_MCA_psec", "native", "PMIX_SECURITY_MODE"}, /* no daemon of munge's between */
    {"PMIX_MCA_prm", "^default,slurm", NULL}           /* talks to a resource manager */
};

static pmix_status_t init_with_settings(struct pmix_server *r, pmix_info_t *info, size_t n)
{
    bool unset[COUNT_OF(settings)];
    for (size_t i = 0; i < COUNT_OF(settings); i++)
        if ((unset[i] = !getenv(settings[i].name)))
            setenv(settings[i].name, settings[i].value, 1);
    pmix_status_t rc = PMIx_server_init(pmix_callbacks(r), info, n);
    for (size_t i = 0; i < COUNT_OF(settings); i++)
        if (unset[i])
            unsetenv(settings[i].name);
    return rc;
}

static pmix_status_t start_server(struct pmix_server *r)
{
    const char *dir = session_dir_path(r->dir);
    pmix_rank_t rank = 0;
    bool yes = true;
    pmix_info_t info[7];
    size_t n = 0;
    PMIX_INFO_LOAD(&info[n++], PMIX_SERVER_TMPDIR, dir, PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_SYSTEM_TMPDIR, dir, PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_SERVER_NSPACE, strrchr(dir, '/') + 1, PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_SERVER_RANK, &rank, PMIX_PROC_RANK);
    PMIX_INFO_LOAD(&info[n++], PMIX_HOSTNAME, r->host, PMIX_STRING);
    PMIX_INFO_LOAD(&info[n++], PMIX_SERVER_SHARE_TOPOLOGY, &yes, PMIX_BOOL);
    size_t owned = n;
    PMIX_INFO_CONSTRUCT(&info[n]);
    PMIX_LOAD_KEY(info[n].key, PMIX_TOPOLOGY2);
    info[n].value.type = PMIX_TOPO;
    info[n++].value.data.topo = &r->topology;
    pmix_status_t rc = init_with_settings(r, info, n);
    for (size_t i = 0; i < owned; i++)
        PMIX_INFO_DESTRUCT(&info[i]);
    return rc;
}

/* Its thread takes what it is asked in turn: a rank that comes afterwards finds all of it. */
static void ask_for(struct pmix_server_job *j, const pmix_info_t *info, size_t n)
{
    struct pmix_wait *q = &j->joining;
    pmix_wait_init(q);
    pmix_wait_open(q);
    pmix_wait_call_returned(q, PMIx_server_register_nspace(j->name, j->ranks, (pmix_info_t *)info,
                                                           n, pmix_wait_answer, q));
    for (int rank = 0; rank < j->ranks; rank++) {
        pmix_proc_t who;
        PMIX_LOAD_PROCID(&who, j->name, (pmix_rank_t)rank);
        pmix_wait_open(q);
        pmix_wait_call_returned(
            q, PMIx_server_register_client(&who, geteuid(), getegid(), j, pmix_wait_answer, q));
    }
}

/* Has the server know the job. */
static int tell_of(struct pmix_server_job *j, struct err *e)
{
    pmix_info_t *info;
    size_t n;
    int rc = pmix_job_info_make(&info, &n, j->name, j->ranks, j->node,
                                session_dir_path(j->owner->dir), e);
    if (rc < 0)
        return rc;
    j->told = true;
    ask_for(j, info, n);
    pmix_status_t status = pmix_wait_wait(&j->joining);
    if (status != PMIX_ERR_TIMEOUT)
        PMIX_INFO_FREE(info, n);
    else /* and what it may still read is left to it */
        j->owner->doubtful = true;
    return status == PMIX_SUCCESS ? 0 : failed(e, "register the job", status);
}

/* The first rank has come: the server takes its lobby over and learns of the jobs before it opens.
 */
static int serve(struct pmix_server *r, struct err *e)
{
    int rc = pmix_loader_open(e);
    if (rc < 0)
        return rc;
    pmix_listener_transfer_fd(&r->lobby);
    pmix_status_t status = start_server(r);
    r->serves = status == PMIX_SUCCESS;
    if (!r->serves)
        rc = failed(e, "start the server", status);
    for (struct pmix_server_job *j = r->jobs; rc == 0 && j; j = j->next)
        rc = tell_of(j, e);
    if (!pmix_listener_enable_accept() && rc == 0)
        rc = err_set(e, -EIO, "PMIx: this libpmix listens elsewhere than where ranks knock");
    return rc;
}

static void on_knock(void *arg)
{
    struct pmix_server *r = arg;
    struct err e = {0};
    if (serve(r, &e) < 0)
        err_print(&e, log_program());
    pmix_listener_close(&r->lobby);
}

/* As libpmix would have it. */
static char *host_name(void)
{
    const char *given = getenv("PMIX_HOSTNAME");
    char name[HOST_NAME_MAX + 1] = "";
    (void)gethostname(name, sizeof name - 1);
    return given ? xstrdup(given) : xstrndup(name, strcspn(name, "."));
}

static struct pmix_server *new_rendezvous(uv_loop_t *loop, hwloc_topology_t topology, struct err *e)
{
    AUTO(free) struct pmix_server *r = xzalloc(sizeof *r);
    int rc = uv_async_init(loop, &r->wake, on_wake);
    if (rc < 0) {
        err_set(e, rc, "PMIx: %s", uv_strerror(rc));
        return NULL;
    }
    uv_timer_init(loop, &r->expiry);
    uv_unref((uv_handle_t *)&r->wake);
    tcp_quickack_init(&r->acks, loop);
    r->wake.data = r->expiry.data = r->acks.timer.data = r->lobby.knock.data = r;
    r->open_handles = 3;
    r->topology = (pmix_topology_t){.source = (char *)"hwloc", .topology = topology};
    r->news_end = &r->news;
    r->names = pmix_publish_new();
    r->host = host_name();
    pthread_mutex_init(&r->lock, NULL);
    pmix_wait_init(&r->pending);
    if (pmix_listener_open(&r->lobby, loop, on_knock, r, e) < 0) {
        close_handles(TAKE(r));
        return NULL;
    }
    r->open_handles++;
    return TAKE(r);
}

int pmix_server_open(struct pmix_server **out, uv_loop_t *loop, hwloc_topology_t topology,
                     struct err *e)
{
    AUTO(session_dir) struct session_dir *dir = NULL;
    int rc = session_dir_open(&dir, e);
    if (rc < 0)
        return err_wrap(e, "PMIx");
    struct pmix_server *r = new_rendezvous(loop, topology, e);
    if (!r)
        return e ? e->code : -EIO;
    r->dir = TAKE(dir);
    *out = r;
    return 0;
}

/* The server frees it. */
static void forget(struct pmix_server_job *j)
{
    if (j->met)
        session_dir_job_ends(j->owner->dir, j->name);
    pmix_wait_open(&j->owner->pending);
    PMIx_server_deregister_nspace(j->name, on_left, j);
}

/* libpmix goes on until the process ends, and may call us. */
static void give_up(struct pmix_server *r)
{
    pthread_mutex_lock(&r->lock);
    r->deaf = true;
    pthread_mutex_unlock(&r->lock);
}

void pmix_server_close(struct pmix_server *r)
{
    if (!r)
        return;
    assert(!r->jobs);
    pmix_listener_close(&r->lobby);
    if (r->serves && (r->doubtful || pmix_wait_wait(&r->pending) != PMIX_SUCCESS)) {
        give_up(r);
    } else if (r->serves) {
        PMIx_server_finalize();
        (void)pmix_callbacks(NULL);
    }
    session_dir_close(r->dir);
    close_handles(r);
}

/* ---- jobs --------------------------------------------------------------------------------------
 */

/* What PMIx_server_setup_fork() says, which only a server that runs can be asked; clients of
 * libpmix 2 to 6 read it. */
static char **make_env(const struct pmix_server *r, const char *name)
{
    static const char *const uris[] = {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
                                       "PMIX_SERVER_URI21", "PMIX_SERVER_URI2"};
    const char *dir = session_dir_path(r->dir);
    char **env = NULL;
    for (size_t i = 0; i < COUNT_OF(uris); i++)
        env_set(&env, uris[i], "%s.0;tcp4://127.0.0.1:%d", strrchr(dir, '/') + 1, r->lobby.port);
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        const char *own = getenv(settings[i].name);
        if (settings[i].told_as) /* a list; what it leaves out is no name */
            env_set(&env, settings[i].told_as, "%s", own && *own != '^' ? own : settings[i].value);
    }
    env_set(&env, "PMIX_NAMESPACE", "%s", name);
    env_set(&env, "PMIX_HOSTNAME", "%s", r->host);
    env_set(&env, "PMIX_SERVER_TMPDIR", "%s", dir);
    env_set(&env, "PMIX_SYSTEM_TMPDIR", "%s", dir);
    env_set(&env, "PMIX_BFROP_BUFFER_TYPE", "PMIX_BFROP_BUFFER_NON_DESC");
    env_set(&env, "PMIX_VERSION", "%d.%d.%d", (int)PMIX_VERSION_MAJOR, (int)PMIX_VERSION_MINOR,
            (int)PMIX_VERSION_RELEASE);
    return env;
}

int pmix_server_join(struct pmix_server_job **out, struct pmix_server *r, const struct plan *p,
                     const struct pmix_server_events *ev, void *arg, struct err *e)
{
    const char *segments = env_get(p->env, "OMPI_MCA_btl_vader_backing_directory");
    if (!segments)
        segments = getenv("OMPI_MCA_btl_vader_backing_directory");
    struct pmix_server_job *j = xzalloc(sizeof *j);
    j->owner = r;
    j->ranks = p->world_size;
    j->node = xstrdup(p->nodes[0].name);
    j->segments = xstrdup(segments ? segments : "/dev/shm");
    PMIX_LOAD_NSPACE(j->name, p->job_id);
    j->env = make_env(r, j->name);
    j->ev = *ev;
    j->arg = arg;
    j->next = r->jobs;
    r->jobs = j;
    *out = j;
    int rc = r->serves ? tell_of(j, e) : 0;
    if (rc < 0)
        pmix_server_leave(TAKE(*out));
    return rc;
}

void pmix_server_leave(struct pmix_server_job *j)
{
    if (!j)
        return;
    struct pmix_server *r = j->owner;
    struct pmix_server_job **at = &r->jobs;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    /* libpmix 4.2 ends a fence twice that loses two ranks at once (lost_connection()). */
    r->doubtful |= atomic_load(&j->inside) != 0;
    if (j->told)
        forget(j);
    else
        free_job(j);
}

char *const *pmix_server_env(const struct pmix_server_job *j)
{
    return j->env;
}
