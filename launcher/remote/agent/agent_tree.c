/* The tree of agents, in a job with more nodes than the launcher has connections (tree.h): the
 * agents below this one, and the change from the launcher to the parent in the tree. */
#include <string.h>

#include "common/log.h"
#include "launcher/node/netif.h"
#include "launcher/remote/agent/agent_internal.h"
#include "launcher/remote/control/relay.h"

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

static void on_exchange(void *arg, int child, const char *bytes, size_t len)
{
    agent_exchange_receive(arg, child, bytes, len);
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
    static const struct agent_children_events ev = {on_up, on_joined, on_exchange, on_lost};
    struct err e = {0};
    int64_t nodes = 0, radix = 0;
    if (a->children || json_require_int(&nodes, f->head, "nodes", NULL) < 0 ||
        json_require_int(&radix, f->head, "radix", NULL) < 0 || nodes <= a->node || radix < 1)
        return;
    a->tree = (struct tree){(int)nodes, (int)radix};
    if (agent_children_open(&a->children, &a->loop, &a->tree, a->node, a->token, &ev, a, &e) < 0) {
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
    if (relay_decode(&inner, &node, f) < 0) {
        log_warn("a malformed frame of the launcher is dropped");
        return;
    }
    if (node != a->node && a->children)
        agent_children_relay(a->children, f);
    if (node == a->node || node == RELAY_ALL)
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
