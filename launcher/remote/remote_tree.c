/* The tree of agents as the launcher sees it (tree.h). It keeps connections only to its children in
 * the tree. The agent of another node connects first to learn where its parent is: it gets `move` as
 * soon as its parent listens. Its frames then come as `relay` frames of a child. */
#include <string.h>

#include "common/log.h"
#include "launcher/remote/engine_remote_internal.h"
#include "launcher/remote/relay.h"

/* ---- the way to a node -------------------------------------------------------------------------
 */

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

void remote_node_send(struct remote_node *n, json_t *head, const void *payload, size_t len)
{
    struct remote_node *way = way_to(n);
    if (!way->peer || !remote_node_has_agent(n->state)) {
        json_decref(head);
    } else if (way == n) {
        control_send(n->peer->control, head, payload, len);
    } else {
        AUTO(strbuf) struct strbuf b = {0};
        head = relay_encode(&b, n->node, head, payload, len);
        control_send(way->peer->control, head, b.data, b.len);
    }
}

void remote_node_broadcast(struct remote_job *j, json_t *head, const void *payload, size_t len)
{
    AUTO(strbuf) struct strbuf b = {0};
    AUTO(json) json_t *relay = relay_encode(&b, RELAY_ALL, json_incref(head), payload, len);
    for (const struct remote_peer *p = j->peers; p; p = p->next)
        if (p->node && has_children(p->node))
            control_send(p->control, json_incref(relay), b.data, b.len);
        else if (p->node || p->moves)
            control_send(p->control, json_incref(head), payload, len);
    json_decref(head);
}

/* ---- agents that move to their parents ---------------------------------------------------------
 */

/* Tells the agent of `p->moves` where its parent is, if the parent listens. */
static void move_if_possible(struct remote_peer *p)
{
    struct remote_job *j = p->job;
    const struct remote_node *parent = &j->nodes[tree_parent(&j->tree, p->moves->node)];
    if (parent->address)
        control_send(p->control, json_pack("{s:s,s:s}", "t", "move", "address", parent->address),
                     NULL, 0);
}

bool remote_tree_has_moved(const struct remote_peer *p)
{
    const struct remote_job *j = p->job;
    return j->nodes[tree_parent(&j->tree, p->moves->node)].address;
}

void remote_tree_wait_for_parent(struct remote_peer *p, struct remote_node *n)
{
    p->moves = n;
    move_if_possible(p);
}

void remote_tree_connected(struct remote_node *n)
{
    if (has_children(n))
        remote_node_send(n,
                         json_pack("{s:s,s:i,s:i}", "t", "listen", "nodes", n->job->tree.nodes,
                                   "radix", n->job->tree.radix),
                         NULL, 0);
}

void remote_tree_on_listening(struct remote_node *n, const struct control_frame *f)
{
    const char *address = NULL;
    if (n->address || json_require_str(&address, f->head, "address", NULL) < 0)
        return;
    n->address = xstrdup(address);
    for (struct remote_peer *p = n->job->peers; p; p = p->next)
        if (p->moves && tree_parent(&n->job->tree, p->moves->node) == n->node)
            move_if_possible(p);
}

/* ---- frames of the nodes below a child ---------------------------------------------------------
 */

/* Handles the first frame of an agent that has moved to its parent. */
static void on_hello(struct remote_node *way, struct remote_node *n, const struct control_frame *f)
{
    struct err e = {0};
    if (remote_peers_check_hello(n->job, f, &e) == n) {
        remote_start_node_connected(n);
        return;
    }
    AUTO(strbuf) struct strbuf b = {0};
    json_t *head = relay_encode(
        &b, n->node, json_pack("{s:s,s:s}", "t", "reject", "why", e.text), NULL, 0);
    control_send(way->peer->control, head, b.data, b.len);
}

void remote_tree_on_relay(struct remote_node *way, const struct control_frame *f)
{
    struct remote_job *j = way->job;
    struct control_frame inner;
    int node;
    if (relay_decode(&inner, &node, f) < 0) {
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
