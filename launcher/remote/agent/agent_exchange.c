/* PMIx and PMI-1: registers the job with this node's server, passes its events to the launcher, and
 * carries the messages of the servers along the tree of agents. */
#include "common/log.h"
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

static void on_exchange(void *arg, const struct exchange_message *m)
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

void agent_exchange_receive(struct agent *a, int from, const char *bytes, size_t len)
{
    struct err e = {0};
    /* Time matters to the launcher's exchange only, which keeps the lookups that wait */
    if (a->exchange && exchange_receive(a->exchange, from, bytes, len, 0, &e) < 0)
        log_warn("a message of a PMIx server is dropped: %s", e.text);
}

void agent_exchange_on_exchange(struct agent *a, const struct control_frame *f)
{
    /* Without an exchange there is no PMIx, or not yet. The launcher reports lost nodes anyway. */
    if (a->exchange)
        agent_exchange_receive(a, tree_parent(&a->tree, a->node), f->payload, f->len);
}

int agent_exchange_join(struct agent *a, struct err *e)
{
    static const struct exchange_events from_exchange = {on_send, on_deliver};
    const struct job_map *m = a->spec.map;
    const bool alone = m->node_count == 1;
    if (a->spec.settings.no_pmix)
        return 0;
    a->of_ranks = (struct rank_events){on_rank_event, alone ? NULL : on_exchange};
    a->tree = (struct tree){m->node_count, a->spec.settings.tree_radix};
    if (!alone)
        a->exchange = exchange_new(&a->tree, a->node, m->rank_nodes, m->ranks, &from_exchange, a);
    return launch_context_join_pmix(&a->pmix, a->context, m, a->spec.plan, &a->of_ranks, a, e);
}

void agent_exchange_leave(struct agent *a)
{
    pmix_server_leave(TAKE(a->pmix));
    exchange_free(TAKE(a->exchange));
}
