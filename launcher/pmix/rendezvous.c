#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "launcher/plan/env.h"
#include "launcher/pmix/job_keys.h"
#include "launcher/pmix/rendezvous_in.h"

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
    free(r);
}

static void close_handles(struct rendezvous *r)
{
    uv_close((uv_handle_t *)&r->wake, on_closed);
    uv_close((uv_handle_t *)&r->expiry, on_closed);
    uv_close((uv_handle_t *)&r->acks.timer, on_closed);
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
    pmix_status_t rc = init_with_settings(r, info, n);
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
    quickack_init(&r->acks, loop);
    r->wake.data = r->expiry.data = r->acks.timer.data = r;
    r->open_handles = 3;
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
    for (struct rendezvous_job *j; (j = r->spare);) {
        r->spare = j->next;
        forget(j);
    }
    if (!r->doubtful && requests_wait(&r->pending) == PMIX_SUCCESS) {
        PMIx_server_finalize();
        (void)rendezvous_module(NULL);
    } else {
        give_up(r);
    }
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
    if (rc != PMIX_ERR_TIMEOUT)
        PMIX_INFO_FREE(j->info, j->info_n);
    else /* and what it may still read is left to it */
        j->owner->doubtful = true;
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
    /* libpmix 4.2 ends a fence twice that loses two ranks at once (lost_connection()). */
    r->doubtful |= atomic_load(&j->inside) != 0;
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
