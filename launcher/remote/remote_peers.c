/* The agents' connections: handles their frames, and decides what the end of a connection means. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "common/log.h"
#include "launcher/hang/call_stacks.h"
#include "launcher/node/topo_path.h"
#include "launcher/remote/engine_remote_internal.h"

enum { STRANGERS_MAX = 64 }; /* unauthenticated peers, in addition to one agent per node */

/* ---- connections ---------------------------------------------------------------------------- */

void remote_peers_drop(struct remote_peer *p)
{
    struct remote_job *j = p->job;
    struct remote_peer **at = &j->peers;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    if (p->node)
        p->node->peer = NULL;
    else if (!p->moves)
        j->unauthenticated--;
    control_close(p->control);
    free(p);
}

/* The list has the newest peer first. */
static void drop_oldest_unauthenticated(struct remote_job *j)
{
    struct remote_peer *oldest = NULL;
    for (struct remote_peer *p = j->peers; p; p = p->next)
        oldest = p->node || p->moves ? oldest : p;
    if (oldest)
        remote_peers_drop(oldest);
}

static void reject(struct remote_peer *p, const char *why)
{
    control_send(p->control, json_pack("{s:s,s:s}", "t", "reject", "why", why), NULL, 0);
    remote_peers_drop(p);
}

/* ---- frames of agents ----------------------------------------------------------------------- */

/* Returns true if `host` is the name of the plan's node `node`. The names are compared up to the
 * first dot, since only one of them may have a domain, and without the user. */
static bool is_same_host(const char *node, const char *host)
{
    const char *at = strrchr(node, '@');
    node = at ? at + 1 : node;
    size_t len = strcspn(node, ".");
    return len == strcspn(host, ".") && strncasecmp(node, host, len) == 0;
}

/* Returns the plan's node with the name `host` if that is another node than `n`, else NULL. If no
 * node has this name, the plan has the host under an address or alias. */
static const char *planned_elsewhere(const struct remote_node *n, const char *host)
{
    const struct plan *p = n->job->plan;
    const char *found = NULL;
    if (is_same_host(remote_node_host(n), host))
        return NULL;
    for (int i = 0; i < p->node_count && !found; i++)
        if (is_same_host(p->nodes[i].name, host))
            found = p->nodes[i].name;
    return found;
}

static void log_rejection(struct remote_job *j, const char *why)
{
    if (!j->rejection_logged)
        log_warn("rejected a connection: %s", why);
    j->rejection_logged = true;
}

struct remote_node *remote_peers_check_hello(struct remote_job *j, const struct control_frame *f,
                                             struct err *e)
{
    const char *version, *host;
    int64_t node, protocol = 0;
    if (strcmp(f->type, "hello") != 0) {
        err_set(e, -EBADMSG, "the first frame is not hello");
        return NULL;
    }
    if (json_require_str(&version, f->head, "version", e) < 0 ||
        json_require_str(&host, f->head, "host", e) < 0 ||
        json_require_int(&node, f->head, "node", e) < 0 ||
        json_optional_int(&protocol, f->head, "protocol", e) < 0)
        return NULL;
    struct remote_node *n = node >= 0 && node < j->plan->node_count ? &j->nodes[node] : NULL;
    if (!n) {
        err_set(e, -EINVAL, "the job has no such node");
    } else if (strcmp(version, DROVER_VERSION) != 0 || protocol != CONTROL_FRAME_PROTOCOL) {
        engine_remote_fail_start(
            j, n->node, 2, "version mismatch: %s has drover %s, this host has " DROVER_VERSION,
            host, version);
        err_set(e, -EINVAL, "version mismatch");
    } else if (planned_elsewhere(n, host)) {
        engine_remote_fail_start(j, n->node, 2,
                                 "planned on %s, but its agent was started on %s; try: name each "
                                 "host once, by one name",
                                 remote_node_host(n), host);
        err_set(e, -EINVAL, "the host is not the planned one");
    } else if (!remote_job_is_starting(j->state)) {
        err_set(e, -EINVAL, "the job has already started or ended");
    } else if (n->state != REMOTE_NODE_EXPECTED) {
        err_set(e, -EINVAL, "an agent is already connected for this node");
    } else {
        return n;
    }
    return NULL;
}

/* Handles the first frame of a peer. */
static void on_hello(struct remote_peer *p, const struct control_frame *f)
{
    struct err e = {0};
    struct remote_node *n = remote_peers_check_hello(p->job, f, &e);
    if (!n) {
        reject(p, e.text);
        return;
    }
    p->job->unauthenticated--;
    (void)control_endpoints(&n->ends,
                            p->control); /* the loop reports a connection that has ended */
    control_authenticate(p->control, CONTROL_SILENT_MS);
    if (remote_tree_hello(p, n) < 0)
        reject(p, "an agent is already connected for this node");
}

/* ---- frames of a node ----------------------------------------------------------------------- */

static void on_topo(struct remote_node *n, const struct control_frame *f)
{
    struct remote_job *j = n->job;
    AUTO(topo) struct topo *t = NULL;
    struct err e = {0};
    if (n->state != REMOTE_NODE_CONNECTED || !remote_job_is_starting(j->state))
        return;
    const char *line = f->payload, *end = memchr(line, '\n', f->len);
    size_t len = end ? (size_t)(end - line) : f->len;
    if (topo_import(&t, j->topos, line, len, &e) < 0 || j->ev.node(j->arg, n->node, t, &e) < 0 ||
        (end && j->ev.checked &&
         j->ev.checked(j->arg, n->node, end + 1, f->len - len - 1, &e) < 0)) {
        engine_remote_fail_start(j, n->node, 2, "%s", e.text);
        return;
    }
    j->has_fabric |= topo_has_fabric(t);
    remote_start_topo_known(n);
}

static void on_port(struct remote_node *n, const struct control_frame *f)
{
    struct remote_job *j = n->job;
    int64_t port;
    if (n != j->ranks[0].node || json_require_int(&port, f->head, "port", NULL) < 0 || port < 1 ||
        port > 65535)
        return;
    j->port = (int)port;
    remote_start_when_ready(j);
}

static void on_ready(struct remote_node *n, const struct control_frame *f)
{
    if (!remote_node_apply(n, REMOTE_NODE_EV_READY))
        return;
    n->job->ready++;
    remote_start_when_ready(n->job);
}

/* What `not_started` says; `why` is borrowed from the frame. */
struct not_started {
    int64_t status;
    bool node_fault;
    const char *why;
};

static struct not_started read_not_started(const struct control_frame *f)
{
    struct not_started s = {126, false, "the agent gave no reason"};
    (void)json_optional_int(&s.status, f->head, "status", NULL);
    (void)json_optional_bool(&s.node_fault, f->head, "node_fault", NULL);
    (void)json_optional_str(&s.why, f->head, "why", NULL);
    return s;
}

/* Handles that the node cannot start its ranks, for example because a file is missing there. */
static void on_node_not_started(struct remote_node *n, const struct control_frame *f)
{
    const struct not_started s = read_not_started(f);
    engine_remote_fail_start(n->job, n->node, (int)s.status, "%s", s.why);
    for (int i = 0; i < n->rank_count; i++)
        if (n->ranks[i]->state == REMOTE_RANK_STARTED)
            engine_remote_not_started(n->ranks[i], (int)s.status, s.node_fault, s.why);
}

static void on_reaped(struct remote_node *n, const struct control_frame *f)
{
    if (remote_node_apply(n, REMOTE_NODE_EV_REAPED))
        engine_remote_check_reaped(n->job);
}

static void on_broken(struct remote_node *n, const struct control_frame *f)
{
    struct remote_job *j = n->job;
    const char *why = "the agent gave no reason";
    (void)json_optional_str(&why, f->head, "why", NULL);
    AUTO(free) char *text = xasprintf("host %s: %s", remote_node_host(n), why);
    if (remote_job_is_starting(j->state))
        engine_remote_fail_start(j, n->node, 126, "%s", why);
    else
        j->ev.broken(j->arg, text);
}

static void on_gpus(struct remote_node *n, const struct control_frame *f)
{
    const struct remote_job *j = n->job;
    if (j->ev.node_gpus && j->spec->sample_gpus)
        j->ev.node_gpus(j->arg, n->node, f->payload, f->len);
}

static void on_parent_died(struct remote_node *n, const struct control_frame *f)
{
    remote_processes_orphaned(n);
}

/* ---- what the nodes' PMIx servers exchange -------------------------------------------------- */

static int64_t now_ms(void)
{
    return (int64_t)(uv_hrtime() / 1000000);
}

static void on_exchange_timer(uv_timer_t *t)
{
    struct remote_job *j = t->data;
    int64_t now = now_ms(), next = exchange_expire(j->exchange, now);
    if (next == INT64_MAX)
        uv_timer_stop(t);
    else
        uv_timer_start(t, on_exchange_timer, next > now ? (uint64_t)(next - now) : 0, 0);
}

static void on_exchange(struct remote_node *n, const struct control_frame *f)
{
    struct remote_job *j = n->job;
    struct err e = {0};
    if (exchange_receive(j->exchange, n->node, f->payload, f->len, now_ms(), &e) < 0)
        log_warn("node %s: %s (dropped)", remote_node_host(n), e.text);
    on_exchange_timer(&j->exchange_timer);
}

static void send_exchange(void *arg, int to, const char *bytes, size_t len)
{
    struct remote_job *j = arg;
    remote_tree_send(&j->nodes[to], json_pack("{s:s}", "t", "exchange"), bytes, len);
}

void remote_peers_open_exchange(struct remote_job *j)
{
    static const struct exchange_events ev = {.send = send_exchange};
    j->exchange = exchange_new(&j->tree, TREE_LAUNCHER, j->rank_nodes, j->plan->world_size, &ev, j);
}

/* ---- frames of a rank ----------------------------------------------------------------------- */

static void on_started(struct remote_rank *r, const struct control_frame *f)
{
    struct remote_job *j = r->node->job;
    int64_t pid = 0;
    (void)json_optional_int(&pid, f->head, "pid", NULL);
    if (r->state == REMOTE_RANK_STARTED)
        j->ev.started(j->arg, r->rank, j->plan->nodes[r->node->node].here ? (pid_t)pid : 0);
}

static void on_not_started(struct remote_rank *r, const struct control_frame *f)
{
    const struct not_started s = read_not_started(f);
    if (r->state == REMOTE_RANK_STARTED)
        engine_remote_not_started(r, (int)s.status, s.node_fault, s.why);
}

static void on_output(struct remote_rank *r, const struct control_frame *f)
{
    int64_t from = LAUNCH_STDOUT;
    (void)json_optional_int(&from, f->head, "from", NULL);
    remote_output_feed(r, from == LAUNCH_STDERR ? LAUNCH_STDERR : LAUNCH_STDOUT, f->payload,
                       f->len);
}

static void on_rank_status(struct remote_rank *r, const struct control_frame *f)
{
    struct rank_status s;
    struct err e = {0};
    if (rank_status_read(&s, json_object_get(f->head, "status"), &e) < 0)
        log_warn("rank %d on %s: %s", r->rank, remote_node_host(r->node), e.text);
    else if (r->node->job->ev.rank_status)
        r->node->job->ev.rank_status(r->node->job->arg, r->rank, &s);
}

static void on_stack(struct remote_rank *r, const struct control_frame *f)
{
    int len = f->len < CALL_STACKS_TEXT_MAX ? (int)f->len : CALL_STACKS_TEXT_MAX;
    AUTO(free) char *text = xasprintf("%.*s", len, f->payload);
    if (r->node->job->ev.stack)
        r->node->job->ev.stack(r->node->job->arg, r->rank, text);
}

static void on_eof(struct remote_rank *r, const struct control_frame *f)
{
    remote_output_end(r);
}

static void on_report(struct remote_rank *r, const struct control_frame *f)
{
    struct remote_job *j = r->node->job;
    r->uses_report_channel = true;
    if (r->state == REMOTE_RANK_STARTED)
        j->ev.report(j->arg, r->rank, f->payload, f->len);
}

static void on_rank_exit(struct remote_rank *r, const struct control_frame *f)
{
    struct remote_job *j = r->node->job;
    int64_t wait = 0;
    bool oom = false;
    (void)json_optional_int(&wait, f->head, "wait", NULL);
    (void)json_optional_bool(&oom, f->head, "oom", NULL);
    if (!engine_remote_apply_rank(r, REMOTE_RANK_EV_EXITED))
        return;
    j->failed |= wait != 0;
    AUTO(free) char *error = f->len > 0 ? xstrndup(f->payload, f->len) : NULL;
    j->ev.exited(j->arg, r->rank, (int)wait, oom, error);
    engine_remote_check_reaped(j);
}

static void on_credit(struct remote_rank *r, const struct control_frame *f)
{
    struct remote_job *j = r->node->job;
    int64_t n = 0;
    bool closed = false;
    (void)json_optional_int(&n, f->head, "bytes", NULL);
    (void)json_optional_bool(&closed, f->head, "closed", NULL);
    if (!j->stdin_reader || r->rank != j->spec->node.stdin_rank || n < 0)
        return;
    if (closed)
        stdin_reader_close(TAKE(j->stdin_reader));
    else
        stdin_reader_credit(j->stdin_reader, (size_t)n);
}

static void on_rank_event(struct remote_rank *r, const struct control_frame *f)
{
    static const char *const names[RANK_EVENTS] = RANK_EVENT_NAMES;
    const struct remote_job *j = r->node->job;
    enum rank_event ev = RANK_JOINED;
    int64_t code = 1;
    while (strcmp(names[ev], f->type) != 0)
        ev++;
    (void)json_optional_int(&code, f->head, "code", NULL);
    if (r->state == REMOTE_RANK_STARTED)
        j->ev.of_ranks->event(j->arg, ev, r->rank, ev == RANK_ABORTED ? (int)code : 0);
}

/* ---- which frame is for whom ---------------------------------------------------------------- */

/* Handles a frame about a rank. Returns false if the type is unknown, or if the node has no such
 * rank. */
static bool handle_rank_frame(struct remote_node *n, const struct control_frame *f)
{
    static const struct {
        const char *type;
        void (*handle)(struct remote_rank *r, const struct control_frame *f);
    } handlers[] = {
        {"output", on_output},     {"exit", on_rank_exit},          {"eof", on_eof},
        {"started", on_started},   {"not_started", on_not_started}, {"report", on_report},
        {"credit", on_credit},     {"rank_status", on_rank_status}, {"stack", on_stack},
        {"joined", on_rank_event}, {"finalized", on_rank_event},    {"aborted", on_rank_event},
        {"spawns", on_rank_event},
    };
    struct remote_job *j = n->job;
    int64_t rank = -1;
    if (json_require_int(&rank, f->head, "rank", NULL) < 0 || rank < 0 ||
        rank >= j->plan->world_size || j->ranks[rank].node != n)
        return false;
    for (size_t i = 0; i < COUNT_OF(handlers); i++)
        if (strcmp(handlers[i].type, f->type) == 0) {
            handlers[i].handle(&j->ranks[rank], f);
            return true;
        }
    return false;
}

void remote_peers_handle(struct remote_node *n, const struct control_frame *f)
{
    static const struct {
        const char *type;
        void (*handle)(struct remote_node *n, const struct control_frame *f);
    } handlers[] = {
        {"relay", remote_tree_on_relay},
        {"exchange", on_exchange},
        {"topo", on_topo},
        {"port", on_port},
        {"ready", on_ready},
        {"gpus", on_gpus},
        {"reaped", on_reaped},
        {"parent_died", on_parent_died},
        {"broken", on_broken},
        {"listening", remote_tree_on_listening},
        {"lost", remote_tree_on_lost},
        {"not_started", on_node_not_started},
    };
    if (handle_rank_frame(n, f))
        return;
    for (size_t i = 0; i < COUNT_OF(handlers); i++)
        if (strcmp(handlers[i].type, f->type) == 0) {
            handlers[i].handle(n, f);
            return;
        }
    log_warn("node %s: unexpected message '%s' (dropped)", remote_node_host(n), f->type);
}

static void on_frame(void *arg, const struct control_frame *f)
{
    struct remote_peer *p = arg;
    if (p->node)
        remote_peers_handle(p->node, f);
    else if (!p->moves)
        on_hello(p, f);
    else if (strcmp(f->type, "not_started") == 0) /* it does not reach its parent */
        on_node_not_started(p->moves, f);
}

/* ---- connections that end ------------------------------------------------------------------- */

/* A node that is silent may have lost its power or its network; if only the agent has ended, the
 * node's kernel closes the connection. */
void remote_peers_lose(struct remote_node *n, bool silent, const char *why)
{
    struct remote_job *j = n->job;
    const char *host = remote_node_host(n);
    AUTO(free)
    char *text = silent ? xasprintf("node %s is lost: %s", host, why)
                        : xasprintf("its agent on %s disconnected: %s", host, why);
    engine_remote_fail_start(j, n->node, 126, "%s", text);
    if (tree_parent(&j->tree, n->node) == TREE_LAUNCHER)
        exchange_lose(j->exchange, n->node);
    on_exchange_timer(&j->exchange_timer);
    remote_tree_lose(n, text);
}

static void on_disconnected(void *arg, const char *why)
{
    struct remote_peer *p = arg;
    struct remote_job *j = p->job;
    struct remote_node *n = p->node ? p->node : p->moves;
    bool moved = remote_tree_has_moved(p), silent = control_is_silent(p->control);
    remote_peers_drop(p);
    if (moved || j->state == REMOTE_JOB_RELEASING || j->state == REMOTE_JOB_DONE)
        return;
    if (n)
        remote_peers_lose(n, silent, why);
    else
        log_rejection(j, why);
}

void remote_peers_accept(struct remote_job *j)
{
    static const struct control_events ev = {.frame = on_frame, .ended = on_disconnected};
    if (j->unauthenticated >= j->plan->node_count + STRANGERS_MAX)
        drop_oldest_unauthenticated(j);
    struct err e = {0};
    struct remote_peer *p = xzalloc(sizeof *p);
    if (control_accept(&p->control, (uv_stream_t *)&j->listener, j->token, &ev, p, &e) < 0) {
        log_debug("%s", e.text); /* the peer has disconnected again */
        free(p);
        return;
    }
    p->job = j;
    p->next = j->peers;
    j->peers = p;
    j->unauthenticated++;
}
