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

static void free_job(struct rendezvous_job *j)
{
    strv_free(j->env);
    free(j->node);
    free(j->segments);
    free(j);
}

/* ---- on PMIx's thread --------------------------------------------------------------------------
 */

void rendezvous_send(struct rendezvous *r, const struct news *news)
{
    AUTO(free) struct news *n = xzalloc(sizeof *n);
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
    struct rendezvous *r = arg;
    int64_t next_ms = names_expire(r->names, clock_ms());
    if (next_ms < INT64_MAX)
        rendezvous_send(r, &(struct news){.what = WAITS, .until_ms = next_ms});
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
    if (n->what == JOINED)
        quickack_more(&r->acks);
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
    quickack_free(&r->acks);
    if (r->deaf)
        return;
    pthread_mutex_destroy(&r->lock);
    names_free(r->names);
    free(r->host);
    free(r);
}

static void close_handles(struct rendezvous *r)
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

static pmix_status_t init_with_settings(struct rendezvous *r, pmix_info_t *info, size_t n)
{
    bool unset[COUNT_OF(settings)];
    for (size_t i = 0; i < COUNT_OF(settings); i++)
        if ((unset[i] = !getenv(settings[i].name)))
            setenv(settings[i].name, settings[i].value, 1);
    pmix_status_t rc = PMIx_server_init(rendezvous_module(r), info, n);
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
static void ask_for(struct rendezvous_job *j, const pmix_info_t *info, size_t n)
{
    struct requests *q = &j->joining;
    requests_init(q);
    requests_open(q);
    requests_returned(q, PMIx_server_register_nspace(j->name, j->ranks, (pmix_info_t *)info, n,
                                                     requests_answer, q));
    for (int rank = 0; rank < j->ranks; rank++) {
        pmix_proc_t who;
        PMIX_LOAD_PROCID(&who, j->name, (pmix_rank_t)rank);
        requests_open(q);
        requests_returned(
            q, PMIx_server_register_client(&who, geteuid(), getegid(), j, requests_answer, q));
    }
}

/* Has the server know the job. */
static int tell_of(struct rendezvous_job *j, struct err *e)
{
    pmix_info_t *info;
    size_t n;
    int rc = job_keys_make(&info, &n, j->name, j->ranks, j->node, workdir_path(j->owner->dir), e);
    if (rc < 0)
        return rc;
    j->told = true;
    ask_for(j, info, n);
    pmix_status_t status = requests_wait(&j->joining);
    if (status != PMIX_ERR_TIMEOUT)
        PMIX_INFO_FREE(info, n);
    else /* and what it may still read is left to it */
        j->owner->doubtful = true;
    return status == PMIX_SUCCESS ? 0 : failed(e, "register the job", status);
}

/* The first rank has come: the server takes its lobby over and learns of the jobs before it opens.
 */
static int serve(struct rendezvous *r, struct err *e)
{
    int rc = libpmix_load(e);
    if (rc < 0)
        return rc;
    lobby_hand_over(&r->lobby);
    pmix_status_t status = start_server(r);
    r->serves = status == PMIX_SUCCESS;
    if (!r->serves)
        rc = failed(e, "start the server", status);
    for (struct rendezvous_job *j = r->jobs; rc == 0 && j; j = j->next)
        rc = tell_of(j, e);
    if (!lobby_let_in() && rc == 0)
        rc = err_set(e, -EIO, "PMIx: this libpmix listens elsewhere than where ranks knock");
    return rc;
}

static void on_knock(void *arg)
{
    struct rendezvous *r = arg;
    struct err e = {0};
    if (serve(r, &e) < 0)
        err_print(&e, log_who());
    lobby_shut(&r->lobby);
}

/* As libpmix would have it. */
static char *host_name(void)
{
    const char *given = getenv("PMIX_HOSTNAME");
    char name[HOST_NAME_MAX + 1] = "";
    (void)gethostname(name, sizeof name - 1);
    return given ? xstrdup(given) : xstrndup(name, strcspn(name, "."));
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
    quickack_init(&r->acks, loop);
    r->wake.data = r->expiry.data = r->acks.timer.data = r->lobby.knock.data = r;
    r->open_handles = 3;
    r->topology = (pmix_topology_t){.source = (char *)"hwloc", .topology = topology};
    r->news_end = &r->news;
    r->names = names_new();
    r->host = host_name();
    pthread_mutex_init(&r->lock, NULL);
    requests_init(&r->pending);
    if (lobby_open(&r->lobby, loop, on_knock, r, e) < 0) {
        close_handles(TAKE(r));
        return NULL;
    }
    r->open_handles++;
    return TAKE(r);
}

int rendezvous_open(struct rendezvous **out, uv_loop_t *loop, hwloc_topology_t topology,
                    struct err *e)
{
    AUTO(workdir) struct workdir *dir = NULL;
    int rc = workdir_open(&dir, e);
    if (rc < 0)
        return err_wrap(e, "PMIx");
    struct rendezvous *r = new_rendezvous(loop, topology, e);
    if (!r)
        return e ? e->code : -EIO;
    r->dir = TAKE(dir);
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

/* libpmix goes on until the process ends, and may call us. */
static void give_up(struct rendezvous *r)
{
    pthread_mutex_lock(&r->lock);
    r->deaf = true;
    pthread_mutex_unlock(&r->lock);
}

void rendezvous_close(struct rendezvous *r)
{
    if (!r)
        return;
    assert(!r->jobs);
    lobby_shut(&r->lobby);
    if (r->serves && (r->doubtful || requests_wait(&r->pending) != PMIX_SUCCESS)) {
        give_up(r);
    } else if (r->serves) {
        PMIx_server_finalize();
        (void)rendezvous_module(NULL);
    }
    workdir_close(r->dir);
    close_handles(r);
}

/* ---- jobs --------------------------------------------------------------------------------------
 */

/* What PMIx_server_setup_fork() says, which only a server that runs can be asked; clients of
 * libpmix 2 to 6 read it. */
static char **make_env(const struct rendezvous *r, const char *name)
{
    static const char *const uris[] = {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
                                       "PMIX_SERVER_URI21", "PMIX_SERVER_URI2"};
    const char *dir = workdir_path(r->dir);
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

int rendezvous_join(struct rendezvous_job **out, struct rendezvous *r, const struct plan *p,
                    const struct rendezvous_events *ev, void *arg, struct err *e)
{
    const char *segments = env_get(p->env, "OMPI_MCA_btl_vader_backing_directory");
    if (!segments)
        segments = getenv("OMPI_MCA_btl_vader_backing_directory");
    struct rendezvous_job *j = xzalloc(sizeof *j);
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
        rendezvous_leave(TAKE(*out));
    return rc;
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
    /* libpmix 4.2 ends a fence twice that loses two ranks at once (lost_connection()). */
    r->doubtful |= atomic_load(&j->inside) != 0;
    if (j->told)
        forget(j);
    else
        free_job(j);
}

char *const *rendezvous_env(const struct rendezvous_job *j)
{
    return j->env;
}
