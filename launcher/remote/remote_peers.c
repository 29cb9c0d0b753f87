/* What the agents say, and what it means when one says no more. */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>

#include "common/log.h"
#include "launcher/inspect/call_stacks.h"
#include "launcher/remote/engine_remote.h"

enum {
    STRANGERS_MAX = 64, /* connections that have not said who they are; others wait */
    VERDICT_MS = 100,   /* for the rest of a node's connections to end, too */
    BROKEN_MS = 500     /* after mpirun's end: for ranks to say first what has ended it */
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
    control_close(p->link);
    free(p);
    if (j->accept_deferred && j->listening) {
        j->accept_deferred = false;
        remote_peers_accept(j);
    }
}

static void refuse(struct remote_peer *p, const char *why)
{
    control_send(p->link, json_pack("{s:s,s:s}", "t", "reject", "why", why), NULL, 0);
    remote_peers_drop(p);
}

static void on_launcher_exit_timer(uv_timer_t *t);

/* ---- what agents say ---------------------------------------------------------------------------
 */

/* Whether `host` calls itself as this node of the plan is called: up to the first dot, since one of
 * them may be longer, and without the user. */
static bool is_called(const char *node, const char *host)
{
    const char *at = strrchr(node, '@');
    node = at ? at + 1 : node;
    size_t len = strcspn(node, ".");
    return len == strcspn(host, ".") && strncasecmp(node, host, len) == 0;
}

/* The node of the plan where the rank is in the place of its own; NULL: none. A host whose name
 * stands nowhere in the plan has another one there: an address, an alias. */
static const char *planned_elsewhere(const struct remote_job *j, int rank, const char *host)
{
    const char *found = NULL;
    if (is_called(engine_remote_host(j, rank), host))
        return NULL;
    for (int i = 0; i < j->plan->node_count && !found; i++)
        if (is_called(j->plan->nodes[i].name, host))
            found = j->plan->nodes[i].name;
    return found;
}

/* A stranger's first word. Who has no token is told nothing. */
static void on_hello(struct remote_peer *p, const struct control_frame *f)
{
    struct remote_job *j = p->job;
    const char *token, *version, *host;
    int64_t rank, protocol = 0;
    struct err e = {0};
    if (strcmp(f->type, "hello") != 0 || json_require_str(&token, f->head, "token", &e) < 0 ||
        !control_same_token(token, j->token)) {
        if (!j->rejection_logged)
            log_warn("somebody who is no rank of this job has connected, and was dropped");
        j->rejection_logged = true;
        remote_peers_drop(p);
        return;
    }
    if (json_require_str(&version, f->head, "version", &e) < 0 ||
        json_require_str(&host, f->head, "host", &e) < 0 ||
        json_require_int(&rank, f->head, "rank", &e) < 0 ||
        json_optional_int(&protocol, f->head, "protocol", &e) < 0) {
        refuse(p, e.text);
    } else if (rank < 0 || rank >= j->plan->world_size) {
        refuse(p, "there is no such rank in the job");
    } else if (strcmp(version, DROVER_VERSION) != 0 || protocol != CONTROL_FRAME_PROTOCOL) {
        engine_remote_fail_start(j, (int)rank, 2, "%s has drover %s, this is " DROVER_VERSION, host,
                                 version);
        refuse(p, "it is another version");
    } else if (planned_elsewhere(j, (int)rank, host)) {
        engine_remote_fail_start(
            j, (int)rank, 2,
            "it is planned on %s and was started on %s; try: each host once, by one "
            "name",
            engine_remote_host(j, (int)rank), host);
        refuse(p, "it is another host than planned");
    } else if (j->failure[0] || j->started || j->clearing) {
        refuse(p, "the job has started without it, or is over");
    } else if (j->ranks[rank].peer) {
        refuse(p, "there is one for this rank already");
    } else {
        j->unauthenticated--;
        p->rank = &j->ranks[rank];
        p->rank->peer = p;
        control_authenticate(p->link, CONTROL_SILENT_MS);
        remote_start_rank_connected(p->rank);
    }
}

static void on_topo(struct remote_rank *r, const struct control_frame *f)
{
    struct remote_job *j = r->job;
    int node = j->plan->ranks[r->rank].node;
    AUTO(topo) struct topo *t = NULL;
    struct err e = {0};
    if (j->nodes[node] != REMOTE_NODE_REQUESTED || j->started)
        return;
    if (topo_import(&t, f->payload, f->len, &e) < 0 || j->ev.node(j->arg, node, t, &e) < 0)
        engine_remote_fail_start(j, r->rank, 2, "%s", e.text);
    else
        remote_start_node_known(j, node);
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
    const char *why = "for a reason that it did not say";
    (void)json_optional_int(&status, f->head, "status", NULL);
    (void)json_optional_str(&why, f->head, "why", NULL);
    if (!j->started) {
        engine_remote_fail_start(j, r->rank, (int)status, "%s", why);
    } else if (r->state == REMOTE_RANK_STARTED) {
        r->state = REMOTE_RANK_DONE;
        for (int i = 0; i < REMOTE_STREAMS; i++)
            rank_output_close(TAKE(r->streams[i].io));
        j->ev.not_started(j->arg, r->rank, (int)status, why);
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
    if (r->state != REMOTE_RANK_STARTED)
        return;
    r->state = REMOTE_RANK_DONE;
    r->job->failed |= wait != 0;
    r->job->ev.exited(r->job->arg, r->rank, (int)wait, oom);
    engine_remote_check_reaped(r->job);
}

static void on_reaped(struct remote_rank *r, const struct control_frame *f)
{
    r->cleared = true;
    engine_remote_check_reaped(r->job);
}

static void on_credit(struct remote_rank *r, const struct control_frame *f)
{
    int64_t n = 0;
    bool closed = false;
    (void)json_optional_int(&n, f->head, "bytes", NULL);
    (void)json_optional_bool(&closed, f->head, "closed", NULL);
    if (!r->job->source || r->rank != r->job->spec->stdin_rank || n < 0)
        return;
    if (closed)
        stdin_reader_close(TAKE(r->job->source));
    else
        stdin_reader_credit(r->job->source, (size_t)n);
}

static void on_pmi(struct remote_rank *r, const struct control_frame *f)
{
    struct err e = {0};
    if (!r->job->pmi1 || pmi1_take(r->job->pmi1, r->rank, f->payload, f->len, &e) == 0)
        return;
    log_warn("%s: its PMI-1 ends", e.text);
    control_send(r->peer->link, json_pack("{s:s}", "t", "pmi"), NULL, 0);
}

static void on_pmi_say(void *arg, int rank, const char *text, size_t len)
{
    struct remote_peer *to = ((struct remote_job *)arg)->ranks[rank].peer;
    if (to)
        control_send(to->link, json_pack("{s:s}", "t", "pmi"), text, len);
}

static void on_pmi_joined(void *arg, int rank)
{
}

static void on_pmi_aborted(void *arg, int rank, int code)
{
    struct remote_job *j = arg;
    if (j->ranks[rank].state == REMOTE_RANK_STARTED)
        j->ev.aborted(j->arg, rank, code);
}

void remote_peers_serve_pmi(struct remote_job *j)
{
    static const struct pmi1_events ev = {on_pmi_say, on_pmi_joined, on_pmi_aborted,
                                          engine_warn_spawn};
    AUTO(free) int *nodes = xcalloc((size_t)j->plan->world_size, sizeof *nodes);
    for (int i = 0; i < j->plan->world_size; i++)
        nodes[i] = j->plan->ranks[i].node;
    j->pmi1 = pmi1_new(j->plan->job_id, j->plan->world_size, nodes, &ev, j);
}

/* Who has killed the parent, mpirun or a person, holds the job for over. */
static void on_parent_died(struct remote_rank *r, const struct control_frame *f)
{
    struct remote_job *j = r->job;
    if (j->released || j->clearing || uv_is_active((uv_handle_t *)&j->launcher_exit_timer))
        return;
    j->orphan = r;
    uv_timer_start(&j->launcher_exit_timer, on_launcher_exit_timer, BROKEN_MS, 0);
}

static void on_frame(void *arg, const struct control_frame *f)
{
    static const struct {
        const char *type;
        void (*act)(struct remote_rank *r, const struct control_frame *f);
    } acts[] = {
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
    for (size_t i = 0; i < COUNT_OF(acts); i++)
        if (strcmp(acts[i].type, f->type) == 0) {
            acts[i].act(p->rank, f);
            return;
        }
    log_warn("rank %d on %s: '%s' is not understood and dropped", p->rank->rank,
             engine_remote_host(p->job, p->rank->rank), f->type);
}

/* ---- what is no more ---------------------------------------------------------------------------
 */

static void mark_lost(struct remote_rank *r, const char *why)
{
    struct remote_job *j = r->job;
    r->cleared = true;
    j->failed = true;
    if (r->state == REMOTE_RANK_STARTED) {
        r->state = REMOTE_RANK_DONE;
        j->ev.lost(j->arg, r->rank, why);
    }
    engine_remote_output_eof(r);
    engine_remote_check_reaped(j);
}

/* Whether every rank of the node is gone, or as good as that: its connections fall silent together,
 * but each is declared lost by its own last ping. */
static bool node_is_gone(const struct remote_job *j, int node)
{
    int ranks = 0;
    for (int i = 0; i < j->plan->world_size; i++) {
        if (j->plan->ranks[i].node != node)
            continue;
        ranks++;
        const struct remote_rank *r = &j->ranks[i];
        if (!r->gone && !(r->peer && control_is_silent(r->peer->link)))
            return false;
    }
    return ranks > 1;
}

static void on_lost_timer(uv_timer_t *t)
{
    struct remote_job *j = t->data;
    for (int i = 0; i < j->plan->world_size; i++) {
        struct remote_rank *r = &j->ranks[i];
        if (!r->gone || r->cleared)
            continue;
        char why[256];
        if (node_is_gone(j, j->plan->ranks[i].node))
            snprintf(why, sizeof why, "node %s is lost: %s", engine_remote_host(j, i), r->why);
        else
            snprintf(why, sizeof why, "its `drover rank` on %s has died: %s",
                     engine_remote_host(j, i), r->why);
        mark_lost(r, why);
    }
}

static void on_ended(void *arg, const char *why)
{
    struct remote_peer *p = arg;
    struct remote_job *j = p->job;
    struct remote_rank *r = p->rank;
    remote_peers_drop(p);
    if (!r || j->released)
        return;
    if (!j->started)
        engine_remote_fail_start(j, r->rank, 126, "its `drover rank` on %s has gone: %s",
                                 engine_remote_host(j, r->rank), why);
    snprintf(r->why, sizeof r->why, "%s", why);
    r->gone = true;
    if (r->state != REMOTE_RANK_STARTED)
        mark_lost(r, why);
    else if (!uv_is_active((uv_handle_t *)&j->lost_timer))
        uv_timer_start(&j->lost_timer, on_lost_timer, VERDICT_MS, 0);
}

/* One more connection; who comes while too many strangers are here waits in the kernel's queue. */
void remote_peers_accept(struct remote_job *j)
{
    static const struct control_events ev = {on_frame, on_ended};
    if (j->unauthenticated >= STRANGERS_MAX) {
        j->accept_deferred = true;
        return;
    }
    struct err e = {0};
    struct remote_peer *p = xzalloc(sizeof *p);
    if (control_accept(&p->link, (uv_stream_t *)&j->listener, &ev, p, &e) < 0) {
        log_debug("%s", e.text); /* it has gone again */
        free(p);
        return;
    }
    p->job = j;
    p->next = j->peers;
    j->peers = p;
    j->unauthenticated++;
}

/* ---- mpirun ------------------------------------------------------------------------------------
 */

static void describe(struct strbuf *out, struct remote_job *j)
{
    const char *who = j->starter->program ? j->starter->program : "a `drover rank`";
    const char *lines[REMOTE_LAUNCHER_LINES + 1] = {NULL};
    struct err e = {0};
    for (int i = 0; i < last_lines_count(j->launcher_output); i++)
        lines[i] = last_lines_get(j->launcher_output, i, NULL);
    int wait = j->starter_wait;
    j->cause_known = j->starter->cause && j->starter->cause(&e, lines);
    if (j->cause_known)
        strbuf_printf(out, "%s%s%s", e.text, e.hint[0] ? "; try: " : "", e.hint);
    else if (j->orphan && (j->launchers_running > 0 || j->starter == &remote_launcher_external))
        strbuf_printf(out, "the `drover rank` of rank %d on %s was killed from outside",
                      j->orphan->rank, engine_remote_host(j, j->orphan->rank));
    else if (WIFSIGNALED(wait))
        strbuf_printf(out, "%s was ended by signal %d", who, WTERMSIG(wait));
    else
        strbuf_printf(out, "%s has ended with status %d", who, WEXITSTATUS(wait));
}

/* A rank that has not come: of a node that is named, else of another machine, else any. */
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

static void on_launcher_exit_timer(uv_timer_t *t)
{
    struct remote_job *j = t->data;
    AUTO(strbuf) struct strbuf text = {0};
    describe(&text, j);
    const char *why = strbuf_str(&text);
    if (!j->started) {
        engine_remote_fail_start(j, rank_to_blame(j, why), 126, "%s", why);
        return;
    }
    for (int i = 0; i < j->plan->world_size; i++)
        if (j->ranks[i].state != REMOTE_RANK_DONE) {
            j->ev.broken(j->arg, why);
            return;
        }
}

void remote_peers_launcher_exited(struct remote_job *j)
{
    if (j->released) { /* as it should */
        if (j->starting && j->launchers_running == 0)
            engine_kill_tree(j->starting);
    } else if (!uv_is_active((uv_handle_t *)&j->launcher_exit_timer)) {
        uv_timer_start(&j->launcher_exit_timer, on_launcher_exit_timer, BROKEN_MS, 0);
    }
}
