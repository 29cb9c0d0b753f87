/* The start of a job over several nodes: we listen; mpirun starts a `drover rank` for each rank,
 * which connect to us and say hello; the first of a node tells its topology, by which its ranks are
 * placed; each gets its row; rank 0's node chooses MASTER_PORT; and when all are there, all start.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/log.h"
#include "common/own_process.h"
#include "launcher/node/netif.h"
#include "launcher/plan/env.h"
#include "launcher/plan/rank_spec.h"
#include "launcher/remote/agent_spawn.h"
#include "launcher/remote/engine_remote.h"

enum { BACKLOG = 4096, NAMES_SHOWN = 5, ANY_PORT = 9 };

/* ---- who listens -------------------------------------------------------------------------------
 */

static void on_agent(uv_stream_t *s, int status)
{
    if (status == 0)
        remote_peers_accept(s->data);
}

static void on_listener_closed(uv_handle_t *h)
{
    engine_remote_unref(h->data);
}

int remote_start_listen(struct remote_job *j, struct err *e)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_in four = {.sin_family = AF_INET};
    uv_tcp_init(j->loop, &j->listener);
    j->listener.data = j;
    j->listening = true;
    j->open_handles++;
    int rc = uv_tcp_bind(&j->listener, (struct sockaddr *)&six, 0);
    if (rc < 0) /* no IPv6 in this machine or container */
        rc = uv_tcp_bind(&j->listener, (struct sockaddr *)&four, 0);
    if (rc == 0)
        rc = uv_listen((uv_stream_t *)&j->listener, BACKLOG, on_agent);
    return rc < 0 ? err_set(e, rc, "listen for the nodes: %s", uv_strerror(rc)) : 0;
}

void remote_start_stop_listening(struct remote_job *j)
{
    if (j->listening)
        uv_close((uv_handle_t *)&j->listener, on_listener_closed);
    j->listening = false;
}

static int listener_port(const struct remote_job *j)
{
    struct sockaddr_storage a = {0};
    int len = sizeof a;
    (void)uv_tcp_getsockname(&j->listener, (struct sockaddr *)&a, &len); /* it listens */
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                         : ((struct sockaddr_in *)&a)->sin_port);
}

/* ---- the starter -------------------------------------------------------------------------------
 */

static const struct remote_launcher *starter_of(const struct plan *p)
{
    return p->engine == PLAN_ENGINE_SRUN           ? &remote_launcher_srun
           : p->engine == PLAN_ENGINE_LOCAL_AGENTS ? &remote_launcher_local
           : p->engine == PLAN_ENGINE_EXTERNAL     ? &remote_launcher_external
                                                   : &remote_launcher_mpirun;
}

/* The first in PATH that is not a link of ours. */
static int find_program(struct remote_job *j, struct err *e)
{
    AUTO(free) char *drover = NULL;
    char own[PATH_MAX] = "";
    if (own_process_sibling(&drover, "drover", NULL) == 0)
        (void)!realpath(drover, own);
    const char *path = env_get(j->base_env, "PATH"), *name = j->starter->program;
    AUTO(free) char *copy = xstrdup(path ? path : "/usr/local/bin:/usr/bin:/bin");
    for (char *rest = copy, *dir; (dir = strsep(&rest, ":"));) {
        AUTO(free) char *file = xasprintf("%s/%s", *dir ? dir : ".", name);
        char real[PATH_MAX];
        if (access(file, X_OK) == 0 && realpath(file, real) && strcmp(real, own) != 0) {
            j->program = TAKE(file);
            return 0;
        }
    }
    err_set(e, -ENOENT, "%s, which starts ranks on other nodes, is not in PATH", name);
    return err_hint(e, "apt install %s", j->starter->package);
}

/* Names alone: Open MPI's sequential mapper knows no "me@host". */
static int write_hostfile(struct remote_job *j, struct err *e)
{
    int rc = session_dir_open(&j->workdir, e);
    if (rc < 0)
        return rc;
    j->hostfile = xasprintf("%s/hosts", session_dir_path(j->workdir));
    AUTO(file) FILE *f = fopen(j->hostfile, "we");
    for (int i = 0; f && i < j->plan->world_size; i++) {
        const char *host = engine_remote_host(j, i), *at = strchr(host, '@');
        fprintf(f, "%s\n", at ? at + 1 : host);
    }
    if (!f || fflush(f) != 0)
        return err_set(e, -errno, "%s: %s", j->hostfile, strerror(errno));
    return 0;
}

static bool on_starter_line(void *arg, int rank, enum launch_stream from, const char *text,
                            size_t len)
{
    struct remote_job *j = arg;
    last_lines_push(j->launcher_output, text, len);
    log_info("%s: %.*s", j->starter->program, (int)len, text);
    return true;
}

static void on_starter_started(void *arg, int rank, pid_t pid)
{
}

static void starter_ended(struct remote_job *j, int wait)
{
    if (wait != 0)
        j->starter_wait = wait;
    if (--j->launchers_running == 0 || !j->started)
        remote_peers_launcher_exited(j);
}

static void on_starter_not_started(void *arg, int rank, int status, const char *why)
{
    struct remote_job *j = arg;
    engine_remote_fail_start(j, 0, status, "%s", why);
    starter_ended(j, 0);
}

static void on_starter_exited(void *arg, int rank, int wait_status, bool oom_killed)
{
    starter_ended(arg, wait_status);
}

static void on_starter_quiet(void *arg, int rank)
{
}

static void on_starter_cleared(void *arg)
{
    struct remote_job *j = arg;
    engine_free(TAKE(j->starting));
    if (j->released) /* its end is not awaited any more, though ours follows only soon */
        uv_timer_stop(&j->deadline);
    engine_remote_check_reaped(j);
}

/* It has no plan but its command line: one rank, or as many as the job has. */
static void plan_starter(struct remote_job *j, char **argv, char **env)
{
    struct plan *p = agent_spawn_plan(j->starter->each ? j->plan->world_size : 1);
    for (int i = 0; i < p->world_size && j->starter->each; i++)
        env_set(&p->ranks[i].env, REMOTE_ENV_RANK, "%d", i);
    p->job_id = xstrdup(j->plan->job_id);
    p->argv = argv;
    p->env = env;
    j->starter_plan = p;
}

/* "10.0.0.1:4000,[fd00::1]:4000". Another node would look for us on its own loopback. */
char *remote_start_addresses(const struct remote_job *j)
{
    AUTO(strbuf) struct strbuf b = {0};
    int port = listener_port(j);
    for (size_t i = 0; j->candidates && j->candidates[i]; i++)
        strbuf_printf(&b, strchr(j->candidates[i], ':') ? "%s[%s]:%d" : "%s%s:%d", b.len ? "," : "",
                      j->candidates[i], port);
    if (b.len == 0)
        strbuf_printf(&b, "127.0.0.1:%d", port);
    return strbuf_take(&b);
}

static int start_starter(struct remote_job *j, struct err *e)
{
    static const struct engine_events ev = {.started = on_starter_started,
                                            .not_started = on_starter_not_started,
                                            .exited = on_starter_exited,
                                            .line = on_starter_line,
                                            .quiet = on_starter_quiet,
                                            .cleared = on_starter_cleared};
    AUTO(free) char *drover_rank = NULL;
    int rc = agent_spawn_program(&drover_rank, e);
    if (rc < 0)
        return rc;
    struct remote_launcher_opts s = {j->plan,     j->spec->engine_args,         j->program,
                                     drover_rank, session_dir_path(j->workdir), j->hostfile};
    char **argv = NULL, **env = env_merge(j->base_env, NULL, NULL);
    AUTO(free) char *control = remote_start_addresses(j);
    env_set(&env, REMOTE_ENV_CONTROL, "%s", control);
    env_set(&env, REMOTE_ENV_TOKEN, "%s", j->token);
    env_set(&env, "DROVER_JOB_ID", "%s", j->plan->job_id);
    rc = j->starter->argv(&argv, &env, &s, e);
    plan_starter(j, argv, env);
    if (rc < 0)
        return rc;
    struct launch_spec spec = {.stdin_null = true};
    struct engine_start_opts order = {.plan = j->starter_plan, .spec = &spec};
    j->launchers_running = j->starter_plan->world_size;
    return engine_local_start(&j->starting, j->engine, &order, &ev, j, e);
}

/* ---- the way from the hosts to us --------------------------------------------------------------
 */

/* The address of ours from which packets to `to` leave; -errno where there is no route. */
static int route(char *out, socklen_t size, const struct addrinfo *to)
{
    struct sockaddr_storage own;
    socklen_t len = sizeof own;
    AUTO(fd) int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen) < 0 ||
        getsockname(fd, (struct sockaddr *)&own, &len) < 0)
        return -errno;
    const void *ip = own.ss_family == AF_INET6 ? (void *)&((struct sockaddr_in6 *)&own)->sin6_addr
                                               : (void *)&((struct sockaddr_in *)&own)->sin_addr;
    return inet_ntop(own.ss_family, ip, out, size) ? 0 : -errno;
}

static bool is_local_only(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0 ||
           strncmp(address, "fe80:", 5) == 0;
}

static void add_candidate(struct remote_job *j, const char *address)
{
    for (size_t i = 0; j->candidates && j->candidates[i]; i++)
        if (strcmp(j->candidates[i], address) == 0)
            return;
    if (!is_local_only(address))
        strv_push(&j->candidates, xstrdup(address));
}

static void add_own_addresses(struct remote_job *j)
{
    AUTO(strv) char **own = NULL;
    netif_addresses(&own);
    for (size_t i = 0; own && own[i]; i++)
        add_candidate(j, own[i]);
}

/* A name that we do not know may be one of ~/.ssh/config, or of Slurm: who starts the ranks shall
 * try, and that host finds us at any of our addresses. */
static void on_all_looked_up(struct remote_job *j)
{
    struct err e = {0};
    if (j->unresolved)
        add_own_addresses(j);
    if (!j->failure[0] && start_starter(j, &e) < 0)
        engine_remote_fail_start(j, 0, e.code == -EINVAL ? 2 : 126, "%s", e.text);
}

static void on_looked_up(void *arg, int i, int status, const struct addrinfo *found)
{
    struct remote_job *j = arg;
    char own[INET6_ADDRSTRLEN];
    int rank = j->named[i], rc = -EHOSTUNREACH, routes = 0;
    j->named[i] = -1;
    for (const struct addrinfo *a = found; a; a = a->ai_next) {
        int error = route(own, sizeof own, a);
        if (error == 0)
            add_candidate(j, own);
        routes += error == 0;
        rc = error < 0 ? error : rc;
    }
    j->unresolved |= status != 0;
    if (status != 0)
        log_info("host '%s': %s", engine_remote_host(j, rank), gai_strerror(status));
    else if (routes == 0)
        engine_remote_fail_start(j, rank, 2, "host '%s': no route to it: %s; try: ip route get %s",
                                 engine_remote_host(j, rank), strerror(-rc), j->names[i]);
    if (--j->lookups == 0)
        on_all_looked_up(j);
}

/* How many nodes that are not this machine there are to look up. */
static int name_hosts(struct remote_job *j)
{
    AUTO(free) bool *seen = xcalloc((size_t)j->plan->node_count, sizeof *seen);
    j->named = xcalloc((size_t)j->plan->node_count, sizeof *j->named);
    for (int i = 0; i < j->plan->world_size; i++) {
        int node = j->plan->ranks[i].node;
        const char *name = j->plan->nodes[node].name, *at = strrchr(name, '@');
        if (!seen[node] && !j->plan->nodes[node].here) {
            strv_push(&j->names, xstrdup(at ? at + 1 : name));
            j->named[j->lookups++] = i;
        }
        seen[node] = true;
    }
    return j->lookups;
}

int remote_start_resolve(struct remote_job *j, struct err *e)
{
    j->starter = starter_of(j->plan);
    if (!getcwd(j->cwd, sizeof j->cwd))
        return err_set(e, -errno, "this directory: %s", strerror(errno));
    if (j->starter == &remote_launcher_external) { /* the others know where they are */
        add_own_addresses(j);
        return 0;
    }
    int rc = j->starter->program ? find_program(j, e) : 0;
    if (rc == 0)
        rc = write_hostfile(j, e);
    if (rc == 0)
        rc = name_hosts(j);
    if (rc > 0)
        return resolve_open(&j->resolve, j->loop, j->names, on_looked_up, j, e);
    if (rc == 0) /* all of them are this machine */
        rc = start_starter(j, e);
    return rc;
}

/* ---- the ranks come ----------------------------------------------------------------------------
 */

static bool reads_stdin(const struct remote_job *j)
{
    return !j->spec->stdin_null && j->spec->stdin_fd >= 0 && j->spec->stdin_rank >= 0 &&
           j->spec->stdin_rank < j->plan->world_size;
}

static void send_row(struct remote_rank *r)
{
    struct remote_job *j = r->job;
    const struct launch_spec *s = j->spec;
    struct rank_spec_opts w = {.reports = s->reports,
                               .with_stdin = reads_stdin(j) && r->rank == s->stdin_rank,
                               .port = r->rank == 0,
                               .port_wanted = j->port_wanted,
                               .port_held = !s->no_hold_port};
    AUTO(strbuf) struct strbuf payload = {0};
    json_t *head = rank_spec_encode(&payload, j->plan, r->rank, j->cwd, &w, &j->base);
    if (payload.len > CONTROL_FRAME_PAYLOAD_MAX) {
        json_decref(head);
        engine_remote_fail_start(j, r->rank, 2, "the environment and arguments are too long");
        return;
    }
    control_send(r->peer->link, head, payload.data, payload.len);
    r->state = REMOTE_RANK_CONFIGURED;
    j->ready++;
    remote_start_when_ready(j);
}

void remote_start_rank_connected(struct remote_rank *r)
{
    struct remote_job *j = r->job;
    enum remote_node *node = &j->nodes[j->plan->ranks[r->rank].node];
    r->state = REMOTE_RANK_CONNECTED;
    if (*node == REMOTE_NODE_KNOWN) {
        send_row(r);
    } else if (*node == REMOTE_NODE_UNKNOWN) {
        *node = REMOTE_NODE_REQUESTED;
        control_send(r->peer->link, json_pack("{s:s}", "t", "topo_request"), NULL, 0);
    }
}

void remote_start_node_known(struct remote_job *j, int node)
{
    j->nodes[node] = REMOTE_NODE_KNOWN;
    for (int i = 0; i < j->plan->world_size; i++)
        if (j->plan->ranks[i].node == node && j->ranks[i].state == REMOTE_RANK_CONNECTED)
            send_row(&j->ranks[i]);
}

/* Where the others find rank 0's node: where it came from; where that is this machine, where
 * another node has found us. */
static int master_address(struct remote_job *j, char *out, size_t size)
{
    struct control_endpoints ends;
    if (control_endpoints(&ends, j->ranks[0].peer->link) < 0)
        return -ENOTCONN;
    snprintf(out, size, "%s", j->plan->node_count == 1 ? "127.0.0.1" : ends.peer);
    if (j->plan->node_count == 1 || !ends.same_host)
        return 0;
    for (int i = 1; i < j->plan->world_size; i++) {
        struct control_endpoints other;
        if (control_endpoints(&other, j->ranks[i].peer->link) == 0 && !other.same_host) {
            snprintf(out, size, "%s", other.own);
            return 0;
        }
    }
    return 0;
}

static void on_stdin(void *arg, const char *bytes, size_t len)
{
    struct remote_job *j = arg;
    struct remote_peer *to = j->ranks[j->spec->stdin_rank].peer;
    if (to)
        control_send(to->link, json_pack("{s:s}", "t", "stdin"), bytes, len);
}

void remote_start_when_ready(struct remote_job *j)
{
    char address[64];
    struct err e = {0};
    int silent_ms = j->spec->lost_after_ms > 0 ? j->spec->lost_after_ms : CONTROL_SILENT_MS;
    if (j->ready < j->plan->world_size || j->port == 0 || j->started || j->failure[0])
        return;
    if (master_address(j, address, sizeof address) < 0) {
        engine_remote_fail_start(j, 0, 126, "%s has gone", engine_remote_host(j, 0));
        return;
    }
    if (reads_stdin(j) &&
        stdin_reader_open(&j->source, j->loop, j->spec->stdin_fd, on_stdin, j, &e) < 0) {
        engine_remote_fail_start(j, 0, 126, "%s", e.text);
        return;
    }
    j->started = true;
    uv_timer_stop(&j->deadline);
    if (!j->master_addr_given)
        j->ev.address(j->arg, address);
    for (int i = 0; i < j->plan->world_size; i++) {
        json_t *start = json_pack("{s:s,s:i,s:i,s:i}", "t", "start", "port", j->port, "nodes",
                                  j->plan->node_count, "lost_after_ms", silent_ms);
        if (!j->master_addr_given)
            json_object_set_new(start, "address", json_string(address));
        if (j->pmi1)
            json_object_set_new(start, "pmi_size", json_integer(j->plan->world_size));
        j->ranks[i].state = REMOTE_RANK_STARTED;
        control_authenticate(j->ranks[i].peer->link, silent_ms);
        control_send(j->ranks[i].peer->link, start, NULL, 0);
    }
}

/* "c02, c03 and 6 more": the nodes of ranks that are not so far. Returns the first of those ranks.
 */
static int late_nodes(const struct remote_job *j, enum remote_state state, struct strbuf *names)
{
    int first = -1, shown = 0, last = -1, more = 0;
    for (int i = 0; i < j->plan->world_size; i++) {
        int node = j->plan->ranks[i].node;
        if (j->ranks[i].state > state || node == last)
            continue;
        first = first < 0 ? i : first;
        last = node;
        if (shown++ < NAMES_SHOWN)
            strbuf_printf(names, "%s%s", names->len ? ", " : "", j->plan->nodes[node].name);
        else
            more++;
    }
    if (more > 0)
        strbuf_printf(names, " and %d more", more);
    return first;
}

void remote_start_timed_out(struct remote_job *j)
{
    AUTO(strbuf) struct strbuf names = {0};
    int limit_s = (j->spec->start_timeout_ms > 0 ? j->spec->start_timeout_ms : 60000) / 1000;
    int rank = late_nodes(j, REMOTE_RANK_EXPECTED, &names);
    for (int i = 0; j->lookups > 0 && j->names[i]; i++)
        if (j->named[i] >= 0)
            engine_remote_fail_start(
                j, j->named[i], 2,
                "host %s: resolve: no name server has answered in %d s; try: getent "
                "hosts %s; /etc/resolv.conf",
                j->names[i], limit_s, j->names[i]);
    if (j->lookups > 0)
        return;
    if (rank >= 0)
        engine_remote_fail_start(j, rank, 126, "no `drover rank` has come from %s in %d s",
                                 strbuf_str(&names), limit_s);
    else if ((rank = late_nodes(j, REMOTE_RANK_CONNECTED, &names)) >= 0)
        engine_remote_fail_start(j, rank, 126, "%s: it did not tell its topology in %d s",
                                 strbuf_str(&names), limit_s);
    else
        engine_remote_fail_start(j, 0, 126, "%s: it has chosen no MASTER_PORT in %d s",
                                 engine_remote_host(j, 0), limit_s);
}
