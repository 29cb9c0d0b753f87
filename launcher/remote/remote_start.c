/* The start of a job over several nodes: this process listens, and a remote launcher such as mpirun
 * starts an agent per node. The agents connect, authenticate, and send the topologies of their
 * nodes, which decide the GPUs and CPUs of the ranks. Then each agent gets its node spec and
 * prepares the start, and the agent of rank 0's node chooses MASTER_PORT. When all agents are
 * ready, all ranks start. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "common/clock.h"
#include "common/log.h"
#include "launcher/engine/mpi_transport.h"
#include "launcher/node/netif.h"
#include "launcher/plan/env.h"
#include "launcher/plan/node_spec.h"
#include "launcher/remote/engine_remote_internal.h"

enum { NAMES_SHOWN = 5, TICK_MS = 1000 };

/* ---- the listener --------------------------------------------------------------------------- */

static void on_agent(uv_stream_t *s, int status)
{
    if (status == 0)
        remote_peers_accept(s->data);
}

int remote_start_listen(struct remote_job *j, struct err *e)
{
    int rc =
        control_listen(&j->listener, &j->listener_fd, j->loop, j->spec->node.ports, on_agent, e);
    j->listener.data = j;
    j->open_handles++;
    return rc;
}

void remote_start_stop_listening(struct remote_job *j)
{
    if (j->listener.data && !uv_is_closing((const uv_handle_t *)&j->listener))
        uv_close((uv_handle_t *)&j->listener, engine_remote_on_closed);
    auto_fd(&j->listener_fd);
    j->listener_fd = -1;
}

/* ---- addresses of this machine -------------------------------------------------------------- */

char *remote_start_addresses(const struct remote_job *j)
{
    return control_address_list(j->candidates, control_listener_port(&j->listener));
}

/* Finds the address of this machine from which packets to `to` leave. Returns 0, or -errno if there
 * is no route. */
static int route(char *out, socklen_t size, const struct addrinfo *to)
{
    struct sockaddr_storage own = {0};
    socklen_t len = sizeof own;
    AUTO(fd) int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen) < 0 ||
        getsockname(fd, (struct sockaddr *)&own, &len) < 0)
        return -errno;
    return getnameinfo((struct sockaddr *)&own, len, out, size, NULL, 0, NI_NUMERICHOST) ? -EINVAL
                                                                                         : 0;
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

/* All names are answered. A name that is unknown here may be an alias in ~/.ssh/config, or known to
 * Slurm. So the launcher tries it, and the agent on that host tries every address of this
 * machine. */
static void on_all_resolved(struct remote_job *j)
{
    struct err e = {0};
    if (j->unresolved)
        add_own_addresses(j);
    if (engine_remote_apply(j, REMOTE_JOB_EV_RESOLVED) && remote_processes_start(j, &e) < 0)
        engine_remote_fail_start(j, 0, e.code == -EINVAL ? 2 : 126, "%s", e.text);
}

static void on_resolved(void *arg, int i, int status, const struct addrinfo *found)
{
    struct remote_job *j = arg;
    char own[INET6_ADDRSTRLEN];
    int node = j->name_nodes[i], rc = -EHOSTUNREACH, routes = 0;
    j->name_nodes[i] = -1;
    for (const struct addrinfo *a = found; a; a = a->ai_next) {
        int error = route(own, sizeof own, a);
        if (error == 0)
            add_candidate(j, own);
        routes += error == 0;
        rc = error < 0 ? error : rc;
    }
    j->unresolved |= status != 0;
    if (status != 0)
        log_info("host %s: resolve: %s", remote_node_host(&j->nodes[node]), gai_strerror(status));
    else if (routes == 0)
        engine_remote_fail_start(j, node, 2, "host %s: connect: no route: %s; try: ip route get %s",
                                 remote_node_host(&j->nodes[node]), strerror(-rc), j->names[i]);
    if (--j->pending_lookups == 0)
        on_all_resolved(j);
}

/* Collects the names of the nodes that are other machines. Returns how many there are. */
static int collect_names(struct remote_job *j)
{
    j->name_nodes = xcalloc((size_t)j->plan->node_count, sizeof *j->name_nodes);
    for (int i = 0; i < j->plan->node_count; i++) {
        const char *name = j->plan->nodes[i].name, *at = strrchr(name, '@');
        if (j->plan->nodes[i].here)
            continue;
        strv_push(&j->names, xstrdup(at ? at + 1 : name));
        j->name_nodes[j->pending_lookups++] = i;
    }
    return j->pending_lookups;
}

int remote_start_begin(struct remote_job *j, struct err *e)
{
    if (!getcwd(j->cwd, sizeof j->cwd))
        return err_set(e, -errno, "current directory: %s", strerror(errno));
    if (!j->launcher->argv) { /* the agents get all addresses that they may be able to reach */
        add_own_addresses(j);
        engine_remote_apply(j, REMOTE_JOB_EV_MEET);
        return 0;
    }
    int rc = remote_processes_prepare(j, e);
    if (rc < 0)
        return rc;
    if (collect_names(j) > 0) {
        engine_remote_apply(j, REMOTE_JOB_EV_RESOLVE);
        return resolve_open(&j->resolve, j->loop, j->names, on_resolved, j, e);
    }
    engine_remote_apply(j, REMOTE_JOB_EV_MEET);
    return remote_processes_start(j, e);
}

/* ---- agents connect ------------------------------------------------------------------------- */

static bool reads_stdin(const struct remote_job *j)
{
    return !j->spec->stdin_null && j->spec->stdin_fd >= 0 && j->spec->node.stdin_rank >= 0 &&
           j->spec->node.stdin_rank < j->plan->world_size;
}

static bool fits(struct remote_node *n, const struct strbuf *payload)
{
    if (payload->len <= CONTROL_FRAME_PAYLOAD_MAX)
        return true;
    engine_remote_fail_start(n->job, n->node, 2, "environment and arguments exceed %d MiB",
                             CONTROL_FRAME_PAYLOAD_MAX >> 20);
    return false;
}

/* Sends what is the same for all nodes to a child of the launcher, which passes it on to its own
 * children when they connect. */
static void send_job(struct remote_node *n)
{
    struct remote_job *j = n->job;
    struct launch_node_settings settings = j->spec->node;
    settings.tree_radix = j->tree.radix;
    settings.master_port = j->port_wanted;
    if (!reads_stdin(j))
        settings.stdin_rank = -1;
    if (!j->job_head)
        j->job_head =
            node_spec_encode_job(&j->job_payload, j->plan, j->cwd, &settings, &j->rank_base_env);
    if (fits(n, &j->job_payload))
        remote_tree_send(n, json_incref(j->job_head), j->job_payload.data, j->job_payload.len);
}

static void send_node_spec(struct remote_node *n)
{
    AUTO(strbuf) struct strbuf payload = {0};
    AUTO(json) json_t *head = node_spec_encode(&payload, n->job->plan, n->node);
    if (fits(n, &payload))
        remote_tree_send(n, json_incref(head), payload.data, payload.len);
}

/* Asks a node for its topology and, in a job with a preflight, for what the checks find there. */
static void request_topo(struct remote_node *n)
{
    struct remote_job *j = n->job;
    const char *gpus = j->spec->gpus ? j->spec->gpus : env_get(j->base_env, "CUDA_VISIBLE_DEVICES");
    json_t *request = json_pack("{s:s}", "t", "topo_request");
    if (j->spec->preflight) {
        json_object_set_new(request, "preflight", json_true());
        json_object_set_new(request, "ranks", json_integer(j->plan->nodes[n->node].local_size));
        if (gpus)
            json_object_set_new(request, "gpus", json_text(gpus));
    }
    remote_tree_send(n, request, NULL, 0);
}

void remote_start_node_connected(struct remote_node *n)
{
    if (!remote_node_apply(n, REMOTE_NODE_EV_HELLO))
        return;
    if (tree_parent(&n->job->tree, n->node) == TREE_LAUNCHER)
        send_job(n);
    request_topo(n);
    remote_processes_agent_connected(n->job);
}

void remote_start_topo_known(struct remote_node *n)
{
    if (remote_node_apply(n, REMOTE_NODE_EV_CONFIGURE))
        send_node_spec(n);
}

/* Finds the address at which the other nodes reach rank 0's node. This is the address from which
 * that node's agent has connected. If that agent is on this machine, it is the address at which an
 * agent of another node has reached this machine. */
static void find_master_addr(struct remote_job *j)
{
    const struct control_endpoints *first = &j->ranks[0].node->ends;
    const char *found = j->plan->node_count == 1 ? "127.0.0.1" : first->peer;
    for (int i = 0; i < j->plan->node_count && j->plan->node_count > 1 && first->same_host; i++)
        if (!j->nodes[i].ends.same_host) {
            found = j->nodes[i].ends.own;
            break;
        }
    snprintf(j->master_addr, sizeof j->master_addr, "%s", found);
}

static void on_stdin(void *arg, const char *bytes, size_t len)
{
    struct remote_job *j = arg;
    int rank = j->spec->node.stdin_rank;
    remote_tree_send(j->ranks[rank].node, json_pack("{s:s,s:i}", "t", "stdin", "rank", rank), bytes,
                     len);
}

void remote_start_when_ready(struct remote_job *j)
{
    struct err e = {0};
    int node = 0;
    if (j->state != REMOTE_JOB_MEETING || j->ready < j->plan->node_count || j->port == 0)
        return;
    find_master_addr(j);
    if (j->ev.ready && j->ev.ready(j->arg, &node, &e) < 0)
        engine_remote_fail_start(j, node, 1, e.hint[0] ? "%s; try: %s" : "%s", e.text, e.hint);
    else if (reads_stdin(j) &&
             stdin_reader_open(&j->stdin_reader, j->loop, j->spec->stdin_fd, on_stdin, j, &e) < 0)
        engine_remote_fail_start(j, j->ranks[j->spec->node.stdin_rank].node->node, 126, "%s",
                                 e.text);
    else
        engine_remote_apply(j, REMOTE_JOB_EV_ALL_READY);
}

/* Adds the variables of all ranks that are known only now. */
static void add_late_env(json_t *start, const struct remote_job *j)
{
    AUTO(strv) char **env = mpi_transport_between_nodes(j->plan, j->base_env, j->has_fabric);
    json_t *list = json_array();
    for (size_t i = 0; env && env[i]; i++)
        json_array_append_new(list, json_string(env[i]));
    json_object_set_new(start, "env", list);
}

/* Asks an agent for samples of the GPUs of its ranks. Those of this machine are sampled here. */
static void request_gpus(const struct remote_job *j, struct remote_node *n)
{
    json_t *uuids = json_array();
    for (int i = 0; i < n->rank_count; i++) {
        const char *uuid = j->plan->ranks[n->ranks[i]->rank].gpu_uuid;
        if (uuid)
            json_array_append_new(uuids, json_text(uuid));
    }
    json_t *request = json_pack("{s:s, s:o}", "t", "sample_gpus", "uuids", uuids);
    if (json_array_size(uuids) > 0 && !j->plan->nodes[n->node].here)
        remote_tree_send(n, request, NULL, 0);
    else
        json_decref(request);
}

void remote_start_enter_running(struct remote_job *j)
{
    int silent_ms = j->spec->lost_after_ms > 0 ? j->spec->lost_after_ms : CONTROL_SILENT_MS;
    uv_timer_stop(&j->limit_timer);
    if (!j->master_addr_given)
        j->ev.address(j->arg, j->master_addr);
    json_t *start = json_pack("{s:s,s:i,s:i,s:i}", "t", "start", "port", j->port, "nodes",
                              j->plan->node_count, "lost_after_ms", silent_ms);
    if (!j->master_addr_given)
        json_object_set_new(start, "address", json_string(j->master_addr));
    add_late_env(start, j);
    for (int i = 0; i < j->plan->node_count; i++) {
        remote_node_apply(&j->nodes[i], REMOTE_NODE_EV_START);
        if (j->nodes[i].peer)
            control_authenticate(j->nodes[i].peer->control, silent_ms);
    }
    for (int i = 0; i < j->plan->world_size; i++)
        engine_remote_apply_rank(&j->ranks[i], REMOTE_RANK_EV_START);
    remote_tree_broadcast(j, start, NULL, 0);
    for (int i = 0; i < j->plan->node_count && j->spec->sample_gpus; i++)
        request_gpus(j, &j->nodes[i]);
}

/* ---- the start limit ------------------------------------------------------------------------ */

/* Writes the nodes that have not passed `state`: "c02, c03 and 6 more". Returns the first of these
 * nodes, or -1 if there are none. */
static int list_late_nodes(struct strbuf *names, const struct remote_job *j,
                           enum remote_node_state state)
{
    int first = -1, late = 0;
    for (int i = 0; i < j->plan->node_count; i++) {
        if (j->nodes[i].state > state)
            continue;
        first = first < 0 ? i : first;
        if (late++ < NAMES_SHOWN)
            strbuf_printf(names, "%s%s", names->len ? ", " : "", remote_node_host(&j->nodes[i]));
    }
    if (late > NAMES_SHOWN)
        strbuf_printf(names, " and %d more", late - NAMES_SHOWN);
    return first;
}

static void resolving_timed_out(struct remote_job *j, int limit_s)
{
    for (int i = 0; j->names[i]; i++)
        if (j->name_nodes[i] >= 0)
            engine_remote_fail_start(j, j->name_nodes[i], 2,
                                     "host %s: resolve: no name server answered within %d s; "
                                     "try: getent hosts %s; /etc/resolv.conf",
                                     j->names[i], limit_s, j->names[i]);
}

static int limit_ms(const struct remote_job *j)
{
    return j->spec->start_timeout_ms > 0 ? j->spec->start_timeout_ms : REMOTE_START_MS;
}

static void on_limit(uv_timer_t *t);

/* If this process was suspended, the limit moves by this time, and what the agents have sent
 * since then is read first. */
static bool was_suspended(struct remote_job *j)
{
    int64_t now_ms = (int64_t)uv_now(j->loop);
    int64_t pause_ms = clock_pause_ms(&j->ticked_ms, now_ms, TICK_MS);
    j->started_ms += pause_ms;
    if (pause_ms > 0)
        uv_timer_start(&j->limit_timer, on_limit, (uint64_t)(j->started_ms + limit_ms(j) - now_ms),
                       0);
    return pause_ms > 0;
}

static void on_limit(uv_timer_t *t)
{
    struct remote_job *j = t->data;
    AUTO(strbuf) struct strbuf names = {0};
    int node, limit_s = limit_ms(j) / 1000;
    if (was_suspended(j))
        return;
    if (j->state == REMOTE_JOB_RESOLVING)
        resolving_timed_out(j, limit_s);
    else if ((node = list_late_nodes(&names, j, REMOTE_NODE_EXPECTED)) >= 0)
        engine_remote_fail_start(
            j, node, 126,
            "no agent connected from %s within %d s; try: open port %d of this "
            "machine for them, or --port-range A-B",
            strbuf_str(&names), limit_s, control_listener_port(&j->listener));
    else if ((node = list_late_nodes(&names, j, REMOTE_NODE_CONNECTED)) >= 0)
        engine_remote_fail_start(j, node, 126, "%s: the agent sent no topology within %d s",
                                 strbuf_str(&names), limit_s);
    else if ((node = list_late_nodes(&names, j, REMOTE_NODE_CONFIGURED)) >= 0)
        engine_remote_fail_start(j, node, 126, "%s: the agent was not ready within %d s",
                                 strbuf_str(&names), limit_s);
    else
        engine_remote_fail_start(j, j->ranks[0].node->node, 126,
                                 "%s: the agent chose no MASTER_PORT within %d s",
                                 remote_node_host(j->ranks[0].node), limit_s);
}

/* Says which nodes the start waits for, and what is missing there. */
static void say_what_is_awaited(struct remote_job *j)
{
    static const struct {
        enum remote_node_state passed;
        const char *missing;
    } steps[] = {
        {REMOTE_NODE_EXPECTED, "no agent has connected from"},
        {REMOTE_NODE_CONNECTED, "no topology arrived from"},
        {REMOTE_NODE_CONFIGURED, "the ranks are not ready on"},
    };
    AUTO(strbuf) struct strbuf names = {0};
    int64_t now_ms = (int64_t)uv_now(j->loop);
    if (!wait_line_due(&j->wait, now_ms))
        return;
    size_t i = 0;
    if (j->state == REMOTE_JOB_RESOLVING)
        wait_line_say(&j->wait, now_ms, "no name server has answered yet");
    while (j->state == REMOTE_JOB_MEETING && i < COUNT_OF(steps) &&
           list_late_nodes(&names, j, steps[i].passed) < 0)
        i++;
    if (names.len)
        wait_line_say(&j->wait, now_ms, "%s %s (--start-timeout %d)", steps[i].missing,
                      strbuf_str(&names), limit_ms(j) / 1000);
}

static void on_tick(uv_timer_t *t)
{
    struct remote_job *j = t->data;
    if (!remote_job_is_starting(j->state))
        uv_timer_stop(t);
    else if (!was_suspended(j))
        say_what_is_awaited(j);
}

void remote_start_limit(struct remote_job *j)
{
    uv_update_time(j->loop);
    j->started_ms = j->ticked_ms = (int64_t)uv_now(j->loop);
    uv_timer_start(&j->limit_timer, on_limit, (uint64_t)limit_ms(j), 0);
    wait_line_begin(&j->wait, j->started_ms);
    uv_timer_start(&j->start_tick, on_tick, TICK_MS, TICK_MS);
}
