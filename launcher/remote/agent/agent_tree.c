/* PMIx and PMI-1: registers the job with this node's server, passes its events to the launcher, and
 * carries the messages of the servers along the tree of agents. In a job with more nodes than the
 * launcher has connections (tree.h): the agents below this one, and the change from the launcher to
 * the parent in the tree. */
#include <string.h>

#include "common/log.h"
#include "launcher/node/netif.h"
#include "launcher/remote/agent/agent_internal.h"

/* ---- events of ranks ------------------------------------------------------------------------ */

static void on_rank_event(void *arg, enum rank_event ev, int rank, int code)
{
    static const char *const names[RANK_EVENTS] = RANK_EVENT_NAMES;
    json_t *head = json_pack("{s:s,s:i}", "t", names[ev], "rank", rank);
    if (ev == RANK_ABORTED)
        json_object_set_new(head, "code", json_integer(code));
    agent_send_head(arg, head);
}

static void on_submit(void *arg, const struct exchange_message *m)
{
    (void)exchange_submit(((struct agent *)arg)->exchange, m, 0, NULL);
}

/* ---- the exchange --------------------------------------------------------------------------- */

static void on_send(void *arg, int to, const char *bytes, size_t len)
{
    struct agent *a = arg;
    if (to == tree_parent(&a->tree, a->node))
        agent_send(a, json_pack("{s:s}", "t", "exchange"), bytes, len);
    else
        agent_children_send(a->children, to, json_pack("{s:s}", "t", "exchange"), bytes, len);
}

static void on_deliver(void *arg, const struct exchange_message *m)
{
    struct agent *a = arg;
    if (m->kind != EXCHANGE_PMI1)
        pmix_server_deliver(a->pmix, m);
    else if (a->job)
        engine_local_deliver(a->job, m);
}

/* Handles bytes of the exchange of a neighbour in the tree: a child or the parent. */
static void receive(void *arg, int from, const char *bytes, size_t len)
{
    struct agent *a = arg;
    struct err e = {0};
    /* Time matters to the launcher's exchange only, which keeps the lookups that wait */
    if (a->exchange && exchange_receive(a->exchange, from, bytes, len, 0, &e) < 0)
        log_warn("a message of a PMIx server is dropped: %s", e.text);
}

void agent_tree_on_exchange(struct agent *a, const struct control_frame *f)
{
    /* Without an exchange there is no PMIx, or not yet. The launcher reports lost nodes anyway. */
    if (a->exchange)
        receive(a, tree_parent(&a->tree, a->node), f->payload, f->len);
}

int agent_tree_join(struct agent *a, struct err *e)
{
    static const struct exchange_events from_exchange = {on_send, on_deliver};
    const struct job_map *m = a->spec.map;
    const bool alone = m->node_count == 1;
    if (a->spec.settings.no_pmix)
        return 0;
    a->of_ranks = (struct rank_events){on_rank_event, alone ? NULL : on_submit};
    a->tree = (struct tree){m->node_count, a->spec.settings.tree_radix};
    if (!alone)
        a->exchange = exchange_new(&a->tree, a->node, m->rank_nodes, m->ranks, &from_exchange, a);
    return launch_context_join_pmix(&a->pmix, a->context, m, a->spec.plan, &a->of_ranks, a, e);
}

void agent_tree_leave(struct agent *a)
{
    pmix_server_leave(TAKE(a->pmix));
    exchange_free(TAKE(a->exchange));
}

/* ---- children ------------------------------------------------------------------------------- */

static void on_up(void *arg, json_t *head, const void *payload, size_t len, bool bulk)
{
    struct agent *a = arg;
    if (bulk)
        agent_send_bulk(a, head, payload, len);
    else
        agent_send(a, head, payload, len);
}

static void on_joined(void *arg, int child)
{
    struct agent *a = arg;
    if (a->job_head)
        agent_children_send(a->children, child, json_incref(a->job_head), a->job_payload.data,
                            a->job_payload.len);
}

/* A child is gone. At the end of the job, this agent waits for its children: what it has sent to
 * them last has then arrived. */
static void on_lost(void *arg, int child)
{
    struct agent *a = arg;
    if (a->exchange)
        exchange_lose(a->exchange, child);
    if (a->released && agent_children_count(a->children) == 0)
        uv_stop(&a->loop);
}

/* Returns the addresses at which other nodes reach this one, with the port of `a->children`:
 * "10.0.0.1:4000,…". The caller frees the text. */
static char *own_addresses(const struct agent *a)
{
    AUTO(strv) char **own = NULL;
    netif_addresses(&own);
    return control_address_list(own, agent_children_port(a->children));
}

void agent_tree_on_listen(struct agent *a, const struct control_frame *f)
{
    static const struct agent_children_events ev = {on_up, on_joined, receive, on_lost};
    struct err e = {0};
    int64_t nodes = 0, radix = 0, first = 0, last = 0;
    if (a->children || json_require_int(&nodes, f->head, "nodes", NULL) < 0 ||
        json_require_int(&radix, f->head, "radix", NULL) < 0 ||
        json_optional_int(&first, f->head, "port_first", NULL) < 0 ||
        json_optional_int(&last, f->head, "port_last", NULL) < 0 || nodes <= a->node || radix < 1)
        return;
    a->tree = (struct tree){(int)nodes, (int)radix};
    const struct agent_children_opts o = {a->tree, a->node, a->token, {(int)first, (int)last}};
    if (agent_children_open(&a->children, &a->loop, &o, &ev, a, &e) < 0) {
        agent_send_start_error(a, &e);
        return;
    }
    AUTO(free) char *addresses = own_addresses(a);
    agent_send_head(a, json_pack("{s:s,s:s}", "t", "listening", "address", addresses));
}

void agent_tree_on_relay(struct agent *a, const struct control_frame *f)
{
    struct control_frame inner;
    int node;
    if (control_frame_relayed(&inner, &node, f) < 0) {
        log_warn("a malformed frame of the launcher is dropped");
        return;
    }
    if (node != a->node && a->children)
        agent_children_relay(a->children, f);
    if (node == a->node || node == CONTROL_FRAME_TO_ALL)
        agent_handle(a, &inner);
    json_decref(inner.head);
}

/* ---- the parent ----------------------------------------------------------------------------- */

void agent_tree_on_move(struct agent *a, const struct control_frame *f)
{
    const char *addresses = NULL;
    struct err e = {0}, why = {0};
    struct control *launcher = a->control;
    if (json_require_str(&addresses, f->head, "address", NULL) < 0)
        return;
    if (agent_connect(a, addresses, &e) == 0) {
        control_close(launcher);
        return;
    }
    err_set(&why, e.code, "its parent in the tree of agents does not answer: %s", e.text);
    agent_send_start_error(a, &why);
}
