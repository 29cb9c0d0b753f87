#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>

#include "common/log.h"
#include "launcher/plan/env.h"
#include "launcher/pmi/interpose.h"
#include "launcher/pmi/pmix_job_info.h"
#include "launcher/pmi/pmix_server_internal.h"

enum { GREETING_LIMIT_MS = 10000 }; /* from a rank's connection to its greeting */

/* Enters a later phase; never leads back. */
static void enter(struct pmix_server *r, enum pmix_server_phase phase)
{
    pthread_mutex_lock(&r->lock);
    r->phase = phase > r->phase ? phase : r->phase;
    pthread_mutex_unlock(&r->lock);
}

static int failed(struct err *e, const char *what, pmix_status_t rc)
{
    return err_set(e, -EIO, "PMIx: %s: %s", what, PMIx_Error_string(rc));
}

static void free_requests(struct pmix_request *q)
{
    while (q) {
        struct pmix_request *next = q->next;
        pmix_request_free(q);
        q = next;
    }
}

static void free_job(struct pmix_server_job *j)
{
    strv_free(j->env);
    exchange_free(j->exchange);
    job_map_free(j->map);
    free_requests(j->requests);
    free_requests(j->early);
    free(j->shm_dir);
    free(j);
}

/* ---- on libpmix's thread -------------------------------------------------------------------- */

void pmix_server_send(struct pmix_server *r, const struct pmix_event *event)
{
    AUTO(free) struct pmix_event *copy = xzalloc(sizeof *copy);
    *copy = *event;
    pthread_mutex_lock(&r->lock);
    if (r->phase == PMIX_SERVER_ABANDONED) {
        pmix_request_free(copy->request);
    } else {
        *r->events_end = TAKE(copy);
        r->events_end = &(*r->events_end)->next;
        uv_async_send(&r->wake);
    }
    pthread_mutex_unlock(&r->lock);
}

static void on_deregistered(pmix_status_t status, void *arg)
{
    struct pmix_server_job *j = arg;
    pmix_wait_answer(status, &j->owner->pending);
    free_job(j);
}

/* ---- on the loop ---------------------------------------------------------------------------- */

static struct pmix_event *take_events(struct pmix_server *r)
{
    pthread_mutex_lock(&r->lock);
    struct pmix_event *all = r->events;
    r->events = NULL;
    r->events_end = &r->events;
    pthread_mutex_unlock(&r->lock);
    return all;
}

static void emit(struct pmix_server *r, const struct pmix_event *event)
{
    struct pmix_server_job *j = r->jobs;
    bool joined = !event->request && event->type == RANK_JOINED;
    if (joined)
        tcp_quickack_rearm(&r->quickack);
    while (j && !PMIX_CHECK_NSPACE(j->name, event->from.nspace))
        j = j->next;
    if (j)
        j->connected += joined - (!event->request && event->type == RANK_FINALIZED);
    if (!j || j->phase == PMIX_JOB_LEAVING)
        pmix_request_free(event->request);
    else if (event->request)
        pmix_server_submit(j, event->request);
    else
        j->ev.event(j->arg, event->type, (int)event->from.rank, event->code);
}

static void free_events(struct pmix_event *events)
{
    while (events) {
        struct pmix_event *next = events->next;
        pmix_request_free(events->request);
        free(events);
        events = next;
    }
}

static void emit_events(struct pmix_server *r)
{
    struct pmix_event *events = take_events(r);
    for (struct pmix_event *event = events; event; event = event->next) {
        emit(r, event);
        event->request = NULL;
    }
    free_events(events);
}

static void on_wake(uv_async_t *a)
{
    emit_events(a->data);
}

static void on_closed(uv_handle_t *h)
{
    struct pmix_server *r = h->data;
    if (--r->open_handles > 0)
        return;
    free_events(take_events(r));
    tcp_quickack_free(&r->quickack);
    if (r->phase == PMIX_SERVER_ABANDONED)
        return; /* libpmix's thread still uses it */
    pthread_mutex_destroy(&r->lock);
    pmix_accept_close(r->accept);
    free(r->host);
    free(r);
}

static void close_handles(struct pmix_server *r)
{
    uv_close((uv_handle_t *)&r->wake, on_closed);
    uv_close((uv_handle_t *)&r->expiry, on_closed);
    uv_close((uv_handle_t *)&r->quickack.timer, on_closed);
    if (r->listener.port > 0)
        uv_close((uv_handle_t *)&r->listener.poll, on_closed);
}

/* ---- the server ----------------------------------------------------------------------------- */

/* Settings of libpmix that are best for ranks of one node and one user. A variable that the user
 * has set is kept. `rank_env` is the variable through which ranks get the value. */
static const struct {
    const char *name, *value, *rank_env;
} settings[] = {
    {"PMIX_MCA_gds", "hash", "PMIX_GDS_MODULE"},       /* messages cost less than shared memory */
    {"PMIX_MCA_psec", "native", "PMIX_SECURITY_MODE"}, /* without munge's daemon */
    {"PMIX_MCA_prm", "^default,slurm", NULL}           /* no contact to a resource manager */
};

/* Removes the variables of an outer launcher (mpirun, srun), by which libpmix would connect to that
 * launcher's server. The ranks have the environment from before (launch_context.env). */
static void forget_outer_launcher(void)
{
    static const char *const prefixes[] = {"PMIX_", "PMI_", "PRTE_"};
    for (size_t i = 0; environ[i];) {
        bool outer = false;
        for (size_t k = 0; k < COUNT_OF(prefixes); k++)
            outer = outer || strncmp(environ[i], prefixes[k], strlen(prefixes[k])) == 0;
        AUTO(free) char *name = xstrndup(environ[i], strcspn(environ[i], "="));
        if (!outer || strncmp(name, "PMIX_MCA_", 9) == 0)
            i++;
        else
            unsetenv(name);
    }
}

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
    forget_outer_launcher();
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

/* Registers the ranks of this node. libpmix's thread processes requests in order, so a rank that
 * connects later finds all these data. */
static void register_ranks(struct pmix_server_job *j, const pmix_info_t *info, size_t n)
{
    struct pmix_wait *q = &j->registering;
    pmix_wait_init(q);
    pmix_wait_open(q);
    pmix_wait_call_returned(q, PMIx_server_register_nspace(j->name, j->map->local_count,
                                                           (pmix_info_t *)info, n, pmix_wait_answer,
                                                           q));
    for (int i = 0; i < j->map->local_count; i++) {
        pmix_proc_t proc;
        PMIX_LOAD_PROCID(&proc, j->name, (pmix_rank_t)j->map->local[i]);
        pmix_wait_open(q);
        pmix_wait_call_returned(
            q, PMIx_server_register_client(&proc, geteuid(), getegid(), j, pmix_wait_answer, q));
    }
}

/* Registers the job with libpmix's server. */
static int register_job(struct pmix_server_job *j, struct err *e)
{
    pmix_info_t *info;
    size_t n;
    int rc = pmix_job_info_make(&info, &n, j->map, j->owner->topology.topology,
                                session_dir_path(j->owner->dir), e);
    if (rc < 0)
        return rc;
    j->phase = PMIX_JOB_REGISTERED;
    register_ranks(j, info, n);
    pmix_status_t status = pmix_wait_wait(&j->registering);
    if (status != PMIX_ERR_TIMEOUT)
        PMIX_INFO_FREE(info, n);
    else /* libpmix may still read `info` */
        enter(j->owner, PMIX_SERVER_TAINTED);
    if (status != PMIX_SUCCESS)
        return failed(e, "register the job", status);
    pmix_server_serve_early(j);
    return 0;
}

static int start_libpmix(struct pmix_server *r, struct err *e)
{
    int rc = session_dir_make(r->dir, e);
    if (rc < 0)
        return err_wrap(e, "PMIx");
    pmix_status_t status = start_server(r);
    if (status != PMIX_SUCCESS)
        return failed(e, "start the server", status);
    enter(r, PMIX_SERVER_RUNS);
    return 0;
}

/* Starts libpmix's server after the first rank has connected. The server takes over the listener,
 * and gets all jobs before it accepts connections. */
static int serve(struct pmix_server *r, struct err *e)
{
    int rc = pmix_loader_open(e);
    if (rc < 0)
        return rc;
    AUTO(fd) int socket = fcntl(r->listener.fd, F_DUPFD_CLOEXEC, 0);
    pmix_listener_transfer_fd(&r->listener, r->accept);
    rc = start_libpmix(r, e);
    for (struct pmix_server_job *j = r->jobs; rc == 0 && j; j = j->next)
        rc = register_job(j, e);
    if (!interpose_end_transfer() && rc == 0) {
        err_set(e, -EIO, "PMIx: this version of libpmix does not listen on the given socket");
        return err_hint(e, "DROVER_NO_INTERPOSE=1 starts its server before the ranks");
    }
    if (rc < 0) /* libpmix may keep its copy open: the ranks that wait there are disconnected */
        (void)shutdown(socket, SHUT_RDWR);
    return rc;
}

static void on_rank_connected(void *arg)
{
    struct pmix_server *r = arg;
    struct err e = {0};
    if (serve(r, &e) < 0)
        err_print(&e, log_program());
    pmix_listener_close(&r->listener);
}

/* Starts libpmix's server for the first job, if interposition is disabled. libpmix then chooses the
 * port, so the server must run before the environment of ranks is made. drover does not finalize
 * this server, since libpmix could hang after its double free (interpose.h). */
static int serve_at_once(struct pmix_server *r, struct err *e)
{
    if (r->phase != PMIX_SERVER_NEW)
        return 0;
    int rc = pmix_loader_open(e);
    if (rc == 0)
        rc = start_libpmix(r, e);
    if (rc == 0)
        enter(r, PMIX_SERVER_TAINTED);
    return rc;
}

/* Returns the name that libpmix would choose for this host. */
static char *host_name(void)
{
    const char *given = getenv("PMIX_HOSTNAME");
    char name[HOST_NAME_MAX + 1] = "";
    (void)gethostname(name, sizeof name - 1);
    return given ? xstrdup(given) : xstrndup(name, strcspn(name, "."));
}

static struct pmix_server *new_server(uv_loop_t *loop, hwloc_topology_t topology, struct err *e)
{
    AUTO(free) struct pmix_server *r = xzalloc(sizeof *r);
    int rc = uv_async_init(loop, &r->wake, on_wake);
    if (rc < 0) {
        err_set(e, rc, "PMIx: %s", uv_strerror(rc));
        return NULL;
    }
    uv_timer_init(loop, &r->expiry);
    uv_unref((uv_handle_t *)&r->wake);
    tcp_quickack_init(&r->quickack, loop);
    r->wake.data = r->expiry.data = r->quickack.timer.data = r->listener.poll.data = r;
    r->open_handles = 3;
    r->topology = (pmix_topology_t){.source = (char *)"hwloc", .topology = topology};
    r->events_end = &r->events;
    r->host = host_name();
    pthread_mutex_init(&r->lock, NULL);
    pmix_wait_init(&r->pending);
    if (!interpose_enabled())
        return TAKE(r);
    if (pmix_accept_open(&r->accept, GREETING_LIMIT_MS, e) < 0 ||
        pmix_listener_open(&r->listener, loop, on_rank_connected, r, e) < 0) {
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
    int rc = session_dir_reserve(&dir, e);
    if (rc < 0)
        return err_wrap(e, "PMIx");
    struct pmix_server *r = new_server(loop, topology, e);
    if (!r)
        return e ? e->code : -EIO;
    r->dir = TAKE(dir);
    *out = r;
    return 0;
}

/* Removes the job from libpmix's server. on_deregistered() frees the job. */
static void deregister_job(struct pmix_server_job *j)
{
    if (j->any_connected)
        session_dir_job_ends(j->owner->dir, j->name);
    pmix_wait_open(&j->owner->pending);
    PMIx_server_deregister_nspace(j->name, on_deregistered, j);
}

void pmix_server_close(struct pmix_server *r)
{
    if (!r)
        return;
    assert(!r->jobs);
    pmix_listener_close(&r->listener);
    if (r->phase == PMIX_SERVER_RUNS && pmix_wait_wait(&r->pending) != PMIX_SUCCESS)
        enter(r, PMIX_SERVER_TAINTED);
    if (r->phase == PMIX_SERVER_TAINTED) {
        enter(r, PMIX_SERVER_ABANDONED); /* libpmix may still call drover's functions */
    } else if (r->phase == PMIX_SERVER_RUNS) {
        if (r->accept)
            pmix_accept_stop(r->accept); /* libpmix waits until its accepting thread ends */
        PMIx_server_finalize();
        interpose_forget_socket();
        (void)pmix_callbacks(NULL);
    }
    session_dir_close(r->dir);
    close_handles(r);
}

/* ---- jobs ----------------------------------------------------------------------------------- */

/* Makes the environment that PMIx_server_setup_fork() would make. That function needs a running
 * server. Clients of libpmix 2 to 6 read these variables. */
static char **make_env(const struct pmix_server *r, const char *name)
{
    static const char *const uris[] = {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3",
                                       "PMIX_SERVER_URI21", "PMIX_SERVER_URI2"};
    const char *dir = session_dir_path(r->dir);
    char **env = NULL;
    for (size_t i = 0; i < COUNT_OF(uris); i++)
        env_set(&env, uris[i], "%s.0;tcp4://127.0.0.1:%d", strrchr(dir, '/') + 1, r->listener.port);
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        const char *own = getenv(settings[i].name);
        if (settings[i].rank_env) /* a value with '^' excludes modules and names none */
            env_set(&env, settings[i].rank_env, "%s", own && *own != '^' ? own : settings[i].value);
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

/* Gets the environment from the running server. */
static int query_env(char ***out, const char *name, int rank, struct err *e)
{
    AUTO(strv) char **env = NULL;
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, name, (pmix_rank_t)rank);
    pmix_status_t status = PMIx_server_setup_fork(&proc, &env);
    if (status != PMIX_SUCCESS)
        return failed(e, "describe the server", status);
    for (size_t i = 0; env[i]; i++)
        if (strncmp(env[i], "PMIX_RANK=", 10) != 0)
            strv_push(out, xstrdup(env[i]));
    return 0;
}

/* Returns the directory that Open MPI uses. */
static char *find_shm_dir(const char *dir)
{
    const char *own = dir ? dir : getenv("OMPI_MCA_btl_vader_backing_directory");
    return xstrdup(own ? own : "/dev/shm");
}

/* Over several nodes, ranks find their node in the job's map by the name that the server has. */
static void set_host(struct pmix_server *r, const struct job_map *map)
{
    if (r->phase != PMIX_SERVER_NEW || map->node_count == 1)
        return;
    free(r->host);
    r->host = xstrdup(map->nodes[map->node]);
}

static struct pmix_server_job *new_job(struct pmix_server *r, const struct job_map *map,
                                       const struct rank_events *ev, void *arg)
{
    struct pmix_server_job *j = xzalloc(sizeof *j);
    j->owner = r;
    j->map = job_map_copy(map);
    PMIX_LOAD_NSPACE(j->name, map->job_id);
    j->ev = *ev;
    j->arg = arg;
    if (!ev->exchange)
        pmix_server_open_exchange(j);
    j->next = r->jobs;
    r->jobs = j;
    return j;
}

int pmix_server_join(struct pmix_server_job **out, struct pmix_server *r, const struct job_map *map,
                     const char *shm_dir, const struct rank_events *ev, void *arg, struct err *e)
{
    assert(ev->exchange || map->node_count == 1);
    set_host(r, map);
    int rc = interpose_enabled() ? 0 : serve_at_once(r, e);
    if (rc < 0)
        return rc;
    struct pmix_server_job *j = new_job(r, map, ev, arg);
    j->shm_dir = find_shm_dir(shm_dir);
    rc = r->phase != PMIX_SERVER_NEW ? register_job(j, e) : 0;
    if (rc == 0 && !interpose_enabled())
        rc = query_env(&j->env, j->name, j->map->local[0], e);
    else if (rc == 0)
        j->env = make_env(r, j->name);
    if (rc < 0)
        pmix_server_leave(j);
    else
        *out = j;
    return rc;
}

void pmix_server_drain(struct pmix_server_job *j)
{
    emit_events(j->owner);
}

void pmix_server_leave(struct pmix_server_job *j)
{
    if (!j)
        return;
    struct pmix_server *r = j->owner;
    bool registered = j->phase == PMIX_JOB_REGISTERED;
    j->phase = PMIX_JOB_LEAVING;
    emit_events(r);
    struct pmix_server_job **at = &r->jobs;
    while (*at != j)
        at = &(*at)->next;
    *at = j->next;
    /* If two connected ranks are lost at the same time, libpmix 4.2 ends their fence twice
     * (lost_connection()). */
    if (j->connected != 0)
        enter(r, PMIX_SERVER_TAINTED);
    if (registered)
        deregister_job(j);
    else
        free_job(j);
}

char *const *pmix_server_env(const struct pmix_server_job *j)
{
    return j->env;
}
