/* The agents' connections: handles their frames, and decides what the end of a connection means. */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>

#include "common/log.h"
#include "launcher/inspect/call_stacks.h"
#include "launcher/remote/engine_remote_internal.h"

enum {
    STRANGERS_MAX = 64,    /* unauthenticated peers, in addition to one agent per rank */
    LOST_MS = 100,         /* time for the other connections of a node to end, too */
    LAUNCHER_EXIT_MS = 500 /* after mpirun's exit: time for ranks to report the cause first */
};

/* ---- connections -------------------------------------------------------------------------------
 */

void remote_peers_drop(struct remote_peer *p)
{
    struct remote_job *j = p->job;
    struct remote_peer **at = &j->peers;
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    if (p->rank)
        p->rank->peer = NULL;
    else
        j->unauthenticated--;
    control_close(p->control);
    free(p);
}

/* The list has the newest peer first. */
static void drop_oldest_unauthenticated(struct remote_job *j)
{
    struct remote_peer *oldest = NULL;
    for (struct remote_peer *p = j->peers; p; p = p->next)
        oldest = p->rank ? oldest : p;
    if (oldest)
        remote_peers_drop(oldest);
}

static void reject(struct remote_peer *p, const char *why)
{
    control_send(p->control, json_pack("{s:s,s:s}", "t", "reject", "why", why), NULL, 0);
    remote_peers_drop(p);
}

static void on_launcher_exit_timer(uv_timer_t *t);

/* ---- frames of agents --------------------------------------------------------------------------
 */

/* Returns true if `host` is the name of the plan's node `node`. The names are compared up to the
 * first dot, since only one of them may have a domain, and without the user. */
static bool is_same_host(const char *node, const char *host)
{
    const char *at = strrchr(node, '@');
    node = at ? at + 1 : node;
    size_t len = strcspn(node, ".");
    return len == strcspn(host, ".") && strncasecmp(node, host, len) == 0;
}

/* Returns the plan's node with the name `host` if the rank is planned on another node, else NULL.
 * If no node has this name, the plan has the host under an address or alias. */
static const char *planned_elsewhere(const struct remote_job *j, int rank, const char *host)
{
    const char *found = NULL;
    if (is_same_host(engine_remote_host(j, rank), host))
        return NULL;
    for (int i = 0; i < j->plan->node_count && !found; i++)
        if (is_same_host(j->plan->nodes[i].name, host))
            found = j->plan->nodes[i].name;
    return found;
}

static void log_rejection(struct remote_job *j, const char *why)
{
    if (!j->rejection_logged)
        log_warn("rejected a connection: %s", why);
    j->rejection_logged = true;
}

/* Handles the first frame of a peer. */
static void on_hello(struct remote_peer *p, const struct control_frame *f)
{
    struct remote_job *j = p->job;
    const char *version, *host;
    int64_t rank, protocol = 0;
    struct err e = {0};
    if (strcmp(f->type, "hello") != 0) {
        reject(p, "the first frame is not hello");
    } else if (json_require_str(&version, f->head, "version", &e) < 0 ||
               json_require_str(&host, f->head, "host", &e) < 0 ||
               json_require_int(&rank, f->head, "rank", &e) < 0 ||
               json_optional_int(&protocol, f->head, "protocol", &e) < 0) {
        reject(p, e.text);
    } else if (rank < 0 || rank >= j->plan->world_size) {
        reject(p, "the job has no such rank");
    } else if (strcmp(version, DROVER_VERSION) != 0 || protocol != CONTROL_FRAME_PROTOCOL) {
        engine_remote_fail_start(
            j, (int)rank, 2, "version mismatch: %s has drover %s, this host has " DROVER_VERSION,
            host, version);
        reject(p, "version mismatch");
    } else if (planned_elsewhere(j, (int)rank, host)) {
        engine_remote_fail_start(j, (int)rank, 2,
                                 "planned on %s, but its agent was started on %s; try: name each "
                                 "host once, by one name",
                                 engine_remote_host(j, (int)rank), host);
        reject(p, "the host is not the planned one");
    } else if (!remote_job_is_starting(j->state)) {
        reject(p, "the job has already started or ended");
    } else if (j->ranks[rank].peer) {
        reject(p, "an agent is already connected for this rank");
    } else {
        j->unauthenticated--;
        p->rank = &j->ranks[rank];
        p->rank->peer = p;
        control_authenticate(p->control, CONTROL_SILENT_MS);
        remote_start_rank_connected(p->rank);
    }
}

static void on_topo(struct remote_rank *r, const struct control_frame *f)
{
    struct remote_job *j = r->job;
    int node = j->plan->ranks[r->rank].node;
    AUTO(topo) struct topo *t = NULL;
    struct err e = {0};
    if (j->topo_states[node] != REMOTE_TOPO_REQUESTED || !remote_job_is_starting(j->state))
        return;
    const char *line = f->payload, *end = memchr(line, '\n', f->len);
    size_t len = end ? (size_t)(end - line) : f->len;
    if (topo_import(&t, line, len, &e) < 0 || j->ev.node(j->arg, node, t, &e) < 0 ||
        (end && j->ev.checked && j->ev.checked(j->arg, node, end + 1, f->len - len - 1, &e) < 0))
        engine_remote_fail_start(j, r->rank, 2, "%s", e.text);
    else
        remote_start_topo_known(j, node);
}

static void on_port(struct remote_rank *r, const struct control_frame *f)
{
    int64_t port;
    if (r->rank != 0 || json_require_int(&port, f->head, "port", NULL) < 0 || port < 1 ||
        port > 65535)
        return;
    r->job->port = (int)port;
    remote_start_when_ready(r->job);
}

static void on_started(struct remote_rank *r, const struct control_frame *f)
{
    int64_t pid = 0;
    (void)json_optional_int(&pid, f->head, "pid", NULL);
    if (r->state != REMOTE_RANK_STARTED)
        return;
    bool here = r->job->plan->nodes[r->job->plan->ranks[r->rank].node].here;
    r->job->ev.started(r->job->arg, r->rank, here ? (pid_t)pid : 0);
}

static void on_not_started(struct remote_rank *r, const struct control_frame *f)
{
    struct remote_job *j = r->job;
    int64_t status = 126;
    bool node_fault = false;
    const char *why = "the agent gave no reason";
    (void)json_optional_int(&status, f->head, "status", NULL);
    (void)json_optional_bool(&node_fault, f->head, "node_fault", NULL);
    (void)json_optional_str(&why, f->head, "why", NULL);
    if (remote_job_is_starting(j->state)) {
        engine_remote_fail_start(j, r->rank, (int)status, "%s", why);
    } else if (r->state == REMOTE_RANK_STARTED) {
        engine_remote_not_started(r, (int)status, node_fault, why);
    }
}

static void on_output(struct remote_rank *r, const struct control_frame *f)
{
    int64_t from = LAUNCH_STDOUT;
    (void)json_optional_int(&from, f->head, "from", NULL);
    engine_remote_output(r, from == LAUNCH_STDERR ? LAUNCH_STDERR : LAUNCH_STDOUT, f->payload,
                         f->len);
}

static void on_rank_status(struct remote_rank *r, const struct control_frame *f)
{
    struct rank_status s;
    struct err e = {0};
    if (rank_status_read(&s, json_object_get(f->head, "status"), &e) < 0)
        log_warn("rank %d on %s: %s", r->rank, engine_remote_host(r->job, r->rank), e.text);
    else if (r->job->ev.standing)
        r->job->ev.standing(r->job->arg, r->rank, &s);
}

static void on_stack(struct remote_rank *r, const struct control_frame *f)
{
    int len = f->len < CALL_STACKS_TEXT_MAX ? (int)f->len : CALL_STACKS_TEXT_MAX;
    AUTO(free) char *text = xasprintf("%.*s", len, f->payload);
    if (r->job->ev.stack)
        r->job->ev.stack(r->job->arg, r->rank, text);
}

static void on_eof(struct remote_rank *r, const struct control_frame *f)
{
    engine_remote_output_eof(r);
}

static void on_report(struct remote_rank *r, const struct control_frame *f)
{
    r->uses_report_channel = true;
    if (r->state == REMOTE_RANK_STARTED)
        r->job->ev.report(r->job->arg, r->rank, f->payload, f->len);
}

static void on_rank_exit(struct remote_rank *r, const struct control_frame *f)
{
    int64_t wait = 0;
    bool oom = false;
    (void)json_optional_int(&wait, f->head, "wait", NULL);
    (void)json_optional_bool(&oom, f->head, "oom", NULL);
    if (!engine_remote_apply_rank(r, REMOTE_RANK_EV_EXITED))
        return;
    r->job->failed |= wait != 0;
    AUTO(free) char *error = f->len > 0 ? xstrndup(f->payload, f->len) : NULL;
    r->job->ev.exited(r->job->arg, r->rank, (int)wait, oom, error);
    engine_remote_check_reaped(r->job);
}

static void on_reaped(struct remote_rank *r, const struct control_frame *f)
{
    r->tree_reaped = true;
    engine_remote_check_reaped(r->job);
}

static void on_credit(struct remote_rank *r, const struct control_frame *f)
{
    int64_t n = 0;
    bool closed = false;
    (void)json_optional_int(&n, f->head, "bytes", NULL);
    (void)json_optional_bool(&closed, f->head, "closed", NULL);
    if (!r->job->stdin_reader || r->rank != r->job->spec->stdin_rank || n < 0)
        return;
    if (closed)
        stdin_reader_close(TAKE(r->job->stdin_reader));
    else
        stdin_reader_credit(r->job->stdin_reader, (size_t)n);
}

static void on_pmi(struct remote_rank *r, const struct control_frame *f)
{
    struct err e = {0};
    if (!r->job->pmi1 || pmi1_recv(r->job->pmi1, r->rank, f->payload, f->len, &e) == 0)
        return;
    log_warn("%s (PMI-1 of the rank ends)", e.text);
    control_send(r->peer->control, json_pack("{s:s}", "t", "pmi"), NULL, 0);
}

static void send_pmi(void *arg, int rank, const char *text, size_t len)
{
    struct remote_peer *to = ((struct remote_job *)arg)->ranks[rank].peer;
    if (to)
        control_send(to->control, json_pack("{s:s}", "t", "pmi"), text, len);
}

static void on_pmi_joined(void *arg, int rank)
{
    struct remote_job *j = arg;
    j->ev.joined(j->arg, rank);
}

static void on_pmi_finalized(void *arg, int rank)
{
    struct remote_job *j = arg;
    j->ev.finalized(j->arg, rank);
}

static void on_pmi_aborted(void *arg, int rank, int code)
{
    struct remote_job *j = arg;
    if (j->ranks[rank].state == REMOTE_RANK_STARTED)
        j->ev.aborted(j->arg, rank, code);
}

void remote_peers_serve_pmi(struct remote_job *j)
{
    static const struct pmi1_events ev = {send_pmi, on_pmi_joined, on_pmi_finalized, on_pmi_aborted,
                                          engine_warn_spawn};
    AUTO(free) int *nodes = xcalloc((size_t)j->plan->world_size, sizeof *nodes);
    for (int i = 0; i < j->plan->world_size; i++)
        nodes[i] = j->plan->ranks[i].node;
    j->pmi1 = pmi1_new(j->plan->job_id, j->plan->world_size, nodes, &ev, j);
}

/* Handles the death of an agent's parent, which mpirun or a user has killed. The job counts as
 * aborted. */
static void on_parent_died(struct remote_rank *r, const struct control_frame *f)
{
    struct remote_job *j = r->job;
    bool counts = remote_job_is_starting(j->state) || j->state == REMOTE_JOB_RUNNING;
    if (!counts || uv_is_active((uv_handle_t *)&j->launcher_exit_timer))
        return;
    j->orphan = r;
    uv_timer_start(&j->launcher_exit_timer, on_launcher_exit_timer, LAUNCHER_EXIT_MS, 0);
}

static void on_frame(void *arg, const struct control_frame *f)
{
    static const struct {
        const char *type;
        void (*handle)(struct remote_rank *r, const struct control_frame *f);
    } handlers[] = {
        {"output", on_output},
        {"exit", on_rank_exit},
        {"eof", on_eof},
        {"started", on_started},
        {"report", on_report},
        {"not_started", on_not_started},
        {"port", on_port},
        {"topo", on_topo},
        {"reaped", on_reaped},
        {"credit", on_credit},
        {"rank_status", on_rank_status},
        {"parent_died", on_parent_died},
        {"stack", on_stack},
        {"pmi", on_pmi},
    };
    struct remote_peer *p = arg;
    if (!p->rank) {
        on_hello(p, f);
        return;
    }
    for (size_t i = 0; i < COUNT_OF(handlers); i++)
        if (strcmp(handlers[i].type, f->type) == 0) {
            handlers[i].handle(p->rank, f);
            return;
        }
    log_warn("rank %d on %s: unexpected message '%s' (dropped)", p->rank->rank,
             engine_remote_host(p->job, p->rank->rank), f->type);
}

/* ---- connections that end ----------------------------------------------------------------------
 */

/* Returns true if the connection of every rank of the node has ended or is silent. When a node is
 * lost, its connections fall silent together, but each one is declared lost at another time, after
 * its own last ping. Returns false for a node with one rank, since the agent alone may be lost. */
static bool is_node_lost(const struct remote_job *j, int node)
{
    int ranks = 0;
    for (int i = 0; i < j->plan->world_size; i++) {
        if (j->plan->ranks[i].node != node)
            continue;
        ranks++;
        const struct remote_rank *r = &j->ranks[i];
        if (r->peer && !control_is_silent(r->peer->control))
            return false;
    }
    return ranks > 1;
}

static void on_lost_timer(uv_timer_t *t)
{
    struct remote_job *j = t->data;
    for (int i = 0; i < j->plan->world_size; i++) {
        struct remote_rank *r = &j->ranks[i];
        if (r->state != REMOTE_RANK_LOSING)
            continue;
        char why[256];
        if (is_node_lost(j, j->plan->ranks[i].node))
            snprintf(why, sizeof why, "node %s is lost: %s", engine_remote_host(j, i),
                     r->lost_cause);
        else
            snprintf(why, sizeof why, "its agent on %s disconnected: %s", engine_remote_host(j, i),
                     r->lost_cause);
        engine_remote_lose(r, why);
    }
}

static void on_disconnected(void *arg, const char *why)
{
    struct remote_peer *p = arg;
    struct remote_job *j = p->job;
    struct remote_rank *r = p->rank;
    remote_peers_drop(p);
    if (j->state == REMOTE_JOB_RELEASING || j->state == REMOTE_JOB_DONE)
        return;
    if (!r) {
        log_rejection(j, why);
        return;
    }
    engine_remote_fail_start(j, r->rank, 126, "its agent on %s disconnected: %s",
                             engine_remote_host(j, r->rank), why);
    if (r->state != REMOTE_RANK_STARTED) {
        j->failed = true;
        engine_remote_abandon_rank(r);
        return;
    }
    engine_remote_apply_rank(r, REMOTE_RANK_EV_DISCONNECTED);
    snprintf(r->lost_cause, sizeof r->lost_cause, "%s", why);
    if (!uv_is_active((uv_handle_t *)&j->lost_timer))
        uv_timer_start(&j->lost_timer, on_lost_timer, LOST_MS, 0);
}

void remote_peers_accept(struct remote_job *j)
{
    static const struct control_events ev = {.frame = on_frame, .ended = on_disconnected};
    if (j->unauthenticated >= j->plan->world_size + STRANGERS_MAX)
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

/* ---- the remote launcher exits -----------------------------------------------------------------
 */

static void describe_exit(struct strbuf *out, struct remote_job *j)
{
    const char *program = j->launcher->program ? j->launcher->program : "an agent";
    const char *lines[REMOTE_LAUNCHER_LINES + 1] = {NULL};
    struct err e = {0};
    for (int i = 0; i < last_lines_count(j->launcher_output); i++)
        lines[i] = last_lines_get(j->launcher_output, i, NULL);
    int wait = j->launcher_wait_status;
    j->launcher_cause_known = j->launcher->find_failure && j->launcher->find_failure(&e, lines);
    if (j->launcher_cause_known)
        strbuf_printf(out, "%s%s%s", e.text, e.hint[0] ? "; try: " : "", e.hint);
    else if (j->orphan && (j->launchers_running > 0 || !j->launcher->argv))
        strbuf_printf(out, "the `drover rank` of rank %d on %s was killed from outside",
                      j->orphan->rank, engine_remote_host(j, j->orphan->rank));
    else if (WIFSIGNALED(wait))
        strbuf_printf(out, "%s was killed by signal %d", program, WTERMSIG(wait));
    else
        strbuf_printf(out, "%s exited with status %d", program, WEXITSTATUS(wait));
}

/* Returns a rank whose agent did not connect. A rank on a node that `why` names is preferred, then
 * a rank on another machine. */
static int rank_to_blame(const struct remote_job *j, const char *why)
{
    int found = 0, best = -1;
    for (int i = 0; i < j->plan->world_size; i++) {
        const struct plan_node *n = &j->plan->nodes[j->plan->ranks[i].node];
        int score = j->ranks[i].state != REMOTE_RANK_EXPECTED ? 0
                    : strstr(why, n->name)                    ? 3
                    : !n->here                                ? 2
                                                              : 1;
        if (score > best) {
            best = score;
            found = i;
        }
    }
    return found;
}

static bool any_rank_runs(const struct remote_job *j)
{
    for (int i = 0; i < j->plan->world_size; i++)
        if (j->ranks[i].state == REMOTE_RANK_STARTED || j->ranks[i].state == REMOTE_RANK_LOSING)
            return true;
    return false;
}

static void on_launcher_exit_timer(uv_timer_t *t)
{
    struct remote_job *j = t->data;
    AUTO(strbuf) struct strbuf text = {0};
    describe_exit(&text, j);
    const char *why = strbuf_str(&text);
    if (remote_job_is_starting(j->state))
        engine_remote_fail_start(j, rank_to_blame(j, why), 126, "%s", why);
    else if (any_rank_runs(j))
        j->ev.broken(j->arg, why);
}

void remote_peers_launcher_exited(struct remote_job *j)
{
    if (j->state == REMOTE_JOB_RELEASING) {
        if (j->launcher_job && j->launchers_running == 0)
            engine_kill_tree(j->launcher_job);
    } else if (!uv_is_active((uv_handle_t *)&j->launcher_exit_timer)) {
        uv_timer_start(&j->launcher_exit_timer, on_launcher_exit_timer, LAUNCHER_EXIT_MS, 0);
    }
}
