/* The tree of agents as the launcher sees it (tree.h). It keeps connections only to its children in
 * the tree. The agent of another node connects first to learn where its parent is: it gets `move`
 * as soon as its parent listens. Its frames then come as `relay` frames of a child. */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "launcher/remote/engine_remote_internal.h"

/* ---- the way to a node ---------------------------------------------------------------------- */

/* Returns the child of the launcher that is `n` or leads to it. */
static struct remote_node *way_to(const struct remote_node *n)
{
    return &n->job->nodes[tree_next_hop(&n->job->tree, TREE_LAUNCHER, n->node)];
}

static bool has_children(const struct remote_node *n)
{
    int first;
    return tree_children(&n->job->tree, n->node, &first) > 0;
}

void remote_tree_send(struct remote_node *n, json_t *head, const void *payload, size_t len)
{
    struct remote_node *way = way_to(n);
    if (!way->peer || !remote_node_has_agent(n->state)) {
        json_decref(head);
    } else if (way == n) {
        control_send(n->peer->control, head, payload, len);
    } else {
        AUTO(strbuf) struct strbuf b = {0};
        head = control_frame_relay(&b, n->node, head, payload, len);
        control_send(way->peer->control, head, b.data, b.len);
    }
}

void remote_tree_broadcast(struct remote_job *j, json_t *head, const void *payload, size_t len)
{
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(json)
    json_t *relay = control_frame_relay(&b, CONTROL_FRAME_TO_ALL, json_incref(head), payload, len);
    for (const struct remote_peer *p = j->peers; p; p = p->next)
        if (p->node && has_children(p->node))
            control_send(p->control, json_incref(relay), b.data, b.len);
        else if (p->node || p->moves)
            control_send(p->control, json_incref(head), payload, len);
    json_decref(head);
}

/* ---- agents come to their places ------------------------------------------------------------ */

/* The agents that have died on their way to their parents. */
static void on_move_timer(uv_timer_t *t)
{
    struct remote_job *j = t->data;
    int64_t now_ms = clock_ms(), next_ms;
    int node = tree_members_late(j->members, now_ms, &next_ms);
    for (; node >= 0; node = tree_members_late(j->members, now_ms, &next_ms)) {
        AUTO(free)
        char *why = xasprintf(
            "it did not reach its parent in the tree of agents, that on %s, within %d s",
            remote_node_host(&j->nodes[tree_parent(&j->tree, node)]), TREE_MEMBERS_MOVE_MS / 1000);
        remote_peers_lose(&j->nodes[node], false, why);
    }
    if (next_ms < INT64_MAX)
        uv_timer_start(t, on_move_timer, (uint64_t)(next_ms - now_ms) + 1, 0);
}

static void on_move(void *arg, int node, const char *address)
{
    struct remote_job *j = arg;
    if (!uv_is_active((uv_handle_t *)&j->move_timer))
        uv_timer_start(&j->move_timer, on_move_timer, TREE_MEMBERS_MOVE_MS + 1, 0);
    for (struct remote_peer *p = j->peers; p; p = p->next)
        if (p->moves == &j->nodes[node])
            control_send(p->control, json_pack("{s:s,s:s}", "t", "move", "address", address), NULL,
                         0);
}

static void on_joined(void *arg, int node)
{
    struct remote_job *j = arg;
    struct remote_node *n = &j->nodes[node];
    remote_start_node_connected(n);
    if (has_children(n))
        remote_tree_send(n,
                         json_pack("{s:s,s:i,s:i,s:i,s:i}", "t", "listen", "nodes", j->tree.nodes,
                                   "radix", j->tree.radix, "port_first", j->spec->node.ports.first,
                                   "port_last", j->spec->node.ports.last),
                         NULL, 0);
}

/* The agents below a lost one end by themselves. */
static void on_lost(void *arg, int node)
{
    struct remote_job *j = arg;
    const struct remote_node *top = j->loss.top;
    AUTO(free)
    char *why = node == top->node ? xstrdup(j->loss.why)
                                  : xasprintf("it was reached through node %s: %s",
                                              remote_node_host(top), j->loss.why);
    remote_node_lose(&j->nodes[node], why);
}

void remote_tree_open(struct remote_job *j)
{
    static const struct tree_members_events ev = {on_move, on_joined, on_lost};
    int radix = j->spec->node.tree_radix > 0 ? j->spec->node.tree_radix : TREE_RADIX;
    j->tree = (struct tree){j->plan->node_count, radix};
    j->members = tree_members_new(&j->tree, &ev, j);
}

int remote_tree_hello(struct remote_peer *p, struct remote_node *n)
{
    struct remote_job *j = p->job;
    bool stays = way_to(n) == n;
    *(stays ? &p->node : &p->moves) = n;
    if (stays)
        n->peer = p;
    return tree_members_hello(j->members, n->node, TREE_LAUNCHER, clock_ms());
}

bool remote_tree_has_moved(const struct remote_peer *p)
{
    return p->moves && tree_members_state(p->job->members, p->moves->node) != TREE_MEMBER_WAITING;
}

void remote_tree_lose(struct remote_node *n, const char *why)
{
    n->job->loss.top = n;
    n->job->loss.why = why;
    tree_members_lose(n->job->members, n->node);
}

void remote_tree_on_listening(struct remote_node *n, const struct control_frame *f)
{
    const char *address = NULL;
    if (json_require_str(&address, f->head, "address", NULL) == 0)
        tree_members_listening(n->job->members, n->node, address, clock_ms());
}

/* ---- frames of the nodes below a child ------------------------------------------------------ */

/* Handles the first frame of an agent that has moved to its parent. */
static void on_hello(struct remote_node *way, struct remote_node *n, const struct control_frame *f)
{
    const struct tree *t = &n->job->tree;
    struct err e = {0};
    if (remote_peers_check_hello(n->job, f, &e) == n) {
        int parent = tree_parent(t, n->node);
        if (tree_members_hello(n->job->members, n->node, parent, clock_ms()) == 0)
            return;
        err_set(&e, -EBUSY, "an agent is already connected for this node");
    }
    AUTO(strbuf) struct strbuf b = {0};
    json_t *head = control_frame_relay(
        &b, n->node, json_pack("{s:s,s:s}", "t", "reject", "why", e.text), NULL, 0);
    control_send(way->peer->control, head, b.data, b.len);
}

void remote_tree_on_relay(struct remote_node *way, const struct control_frame *f)
{
    struct remote_job *j = way->job;
    struct control_frame inner;
    int node;
    if (control_frame_relayed(&inner, &node, f) < 0) {
        log_warn("node %s: a malformed frame is dropped", remote_node_host(way));
        return;
    }
    struct remote_node *n =
        node >= 0 && node < j->tree.nodes && tree_is_below(&j->tree, way->node, node)
            ? &j->nodes[node]
            : NULL;
    if (n && strcmp(inner.type, "hello") == 0)
        on_hello(way, n, &inner);
    else if (n && remote_node_has_agent(n->state))
        remote_peers_handle(n, &inner);
    json_decref(inner.head);
}

/* An agent on the way has lost a child. */
void remote_tree_on_lost(struct remote_node *way, const struct control_frame *f)
{
    struct remote_job *j = way->job;
    const char *why = "no reason given";
    bool silent = false;
    int64_t node = -1;
    (void)json_require_int(&node, f->head, "node", NULL);
    (void)json_optional_str(&why, f->head, "why", NULL);
    (void)json_optional_bool(&silent, f->head, "silent", NULL);
    if (node >= 0 && node < j->tree.nodes && node != way->node &&
        tree_is_below(&j->tree, way->node, (int)node) && j->state != REMOTE_JOB_RELEASING)
        remote_peers_lose(&j->nodes[node], silent, why);
}
