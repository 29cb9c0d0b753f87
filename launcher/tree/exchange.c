#include "launcher/tree/exchange.h"

#include <assert.h>
#include <errno.h>

#include "launcher/tree/exchange_internal.h"

/* ---- the instance --------------------------------------------------------------------------- */

struct exchange *exchange_new(const struct tree *t, int at, const int *rank_nodes, int ranks,
                              const struct exchange_events *ev, void *arg)
{
    struct exchange *x = xzalloc(sizeof *x);
    *x = (struct exchange){.tree = t ? *t : (struct tree){1, TREE_RADIX},
                           .at = at,
                           .alone = !t,
                           .rank_nodes = rank_nodes,
                           .ranks = ranks,
                           .ev = *ev,
                           .arg = arg};
    x->children = tree_children(&x->tree, at, &x->first_child);
    int rc = exchange_parts_find(&x->all, x, NULL, 0);
    assert(rc == 0);
    (void)rc;
    return x;
}

void exchange_free(struct exchange *x)
{
    if (!x)
        return;
    exchange_fence_free_all(x);
    exchange_names_free_all(x);
    free(x->all.child);
    free(x->lost);
    free(x->gets);
    free(x);
}

bool exchange_is_lost(const struct exchange *x, int node)
{
    for (size_t i = 0; i < x->lost_count; i++)
        if (tree_is_below(&x->tree, x->lost[i], node))
            return true;
    return false;
}

bool exchange_is_live_child(const struct exchange *x, int to)
{
    return to >= x->first_child && to < x->first_child + x->children && !exchange_is_lost(x, to);
}

/* ---- sending -------------------------------------------------------------------------------- */

static void send_message(struct exchange *x, int to, const struct exchange_message *m)
{
    AUTO(strbuf) struct strbuf b = {0};
    exchange_message_encode(&b, m);
    x->ev.send(x->arg, to, b.data, b.len);
}

void exchange_route(struct exchange *x, int node, const struct exchange_message *m)
{
    int hop = tree_next_hop(&x->tree, x->at, node);
    if (node == x->at)
        x->ev.deliver(x->arg, m);
    else if (hop < TREE_LAUNCHER)
        send_message(x, tree_parent(&x->tree, x->at), m);
    else if (exchange_is_live_child(x, hop))
        send_message(x, hop, m);
}

/* ---- requests for the data of a rank -------------------------------------------------------- */

static void answer_get(struct exchange *x, uint64_t id, int status)
{
    struct exchange_message m = {
        .type = EXCHANGE_GOT, .node = x->at, .rank = -1, .id = id, .status = status};
    x->ev.deliver(x->arg, &m);
}

/* Forgets the request. Returns false if there is none with this id. */
static bool forget_get(struct exchange *x, uint64_t id)
{
    for (size_t i = 0; i < x->get_count; i++)
        if (x->gets[i].id == id) {
            x->gets[i] = x->gets[--x->get_count];
            return true;
        }
    return false;
}

/* Answers the requests for ranks of lost nodes. */
static void lose_gets(struct exchange *x)
{
    for (size_t i = 0; i < x->get_count;) {
        struct exchange_get g = x->gets[i];
        if (!exchange_is_lost(x, x->rank_nodes[g.rank])) {
            i++;
            continue;
        }
        x->gets[i] = x->gets[--x->get_count];
        answer_get(x, g.id, EXCHANGE_FAILED);
        i = 0; /* the server may have asked again */
    }
}

static void submit_get(struct exchange *x, const struct exchange_message *m)
{
    if (m->rank < 0 || m->rank >= x->ranks) {
        answer_get(x, m->id, EXCHANGE_NOT_FOUND);
        return;
    }
    int node = x->rank_nodes[m->rank];
    if (exchange_is_lost(x, node)) {
        answer_get(x, m->id, EXCHANGE_FAILED);
        return;
    }
    x->gets = xrealloc(x->gets, x->get_count + 1, sizeof *x->gets);
    x->gets[x->get_count++] = (struct exchange_get){m->id, m->rank};
    exchange_route(x, node, m);
}

static void submit_answer(struct exchange *x, const struct exchange_message *m)
{
    if (m->node == x->at) {
        if (forget_get(x, m->id))
            x->ev.deliver(x->arg, m);
    } else if (m->node >= 0 && m->node < x->tree.nodes && tree_is_below(&x->tree, x->at, m->node)) {
        exchange_route(x, m->node, m);
    } else {
        send_message(x, tree_parent(&x->tree, x->at), m);
    }
}

/* ---- messages of this node's server --------------------------------------------------------- */

static void submit_fence(struct exchange *x, const struct exchange_message *m)
{
    struct err e;
    if (exchange_fence_contribute(x, x->at, m, &e) == 0)
        return;
    struct exchange_message done = *m; /* no fence that can end */
    done.type = EXCHANGE_FENCE_DONE;
    done.status = EXCHANGE_FAILED;
    done.data = NULL;
    done.len = 0;
    x->ev.deliver(x->arg, &done);
}

/* ---- messages of neighbours ----------------------------------------------------------------- */

struct received {
    int from;
    const struct exchange_message *m;
    const char *bytes; /* encoded */
    size_t len;
    int64_t now_ms;
};

static int refuse(const struct received *r, struct err *e)
{
    return err_set(e, -EBADMSG, "message %d is not allowed from %d", r->m->type, r->from);
}

static bool is_node(const struct exchange *x, int node)
{
    return node >= 0 && node < x->tree.nodes;
}

/* Returns true if `from` may send a message of the node: the node is below a child, or
 * anywhere else if `from` is the parent. */
static bool is_from(const struct exchange *x, int from, int node)
{
    if (!is_node(x, node))
        return false;
    int hop = tree_next_hop(&x->tree, x->at, node);
    return from == tree_parent(&x->tree, x->at) && x->at != TREE_LAUNCHER
               ? hop < TREE_LAUNCHER && node != x->at
               : hop == from;
}

/* Returns true if a message from `from` may be passed on towards the node: from the parent only
 * downwards. */
static bool is_towards(const struct exchange *x, int from, int node)
{
    return is_node(x, node) && (from > x->at || tree_is_below(&x->tree, x->at, node));
}

static int receive_fence(struct exchange *x, const struct received *r, struct err *e)
{
    if (r->from <= x->at)
        return refuse(r, e);
    return exchange_fence_contribute(x, r->from, r->m, e);
}

static int receive_fence_done(struct exchange *x, const struct received *r, struct err *e)
{
    if (r->from > x->at)
        return refuse(r, e);
    return exchange_fence_end(x, r->m, r->bytes, r->len, e);
}

static int receive_get(struct exchange *x, const struct received *r, struct err *e)
{
    const struct exchange_message *m = r->m;
    if (m->rank < 0 || m->rank >= x->ranks || !is_from(x, r->from, m->node) ||
        !is_towards(x, r->from, x->rank_nodes[m->rank]))
        return refuse(r, e);
    exchange_route(x, x->rank_nodes[m->rank], m);
    return 0;
}

static int receive_answer(struct exchange *x, const struct received *r, struct err *e)
{
    const struct exchange_message *m = r->m;
    if (!is_towards(x, r->from, m->node) || (m->type == EXCHANGE_FOUND && r->from > x->at))
        return refuse(r, e);
    /* A request that was answered when its node was lost may get a second answer. */
    if (m->node != x->at || m->type == EXCHANGE_FOUND || forget_get(x, m->id))
        exchange_route(x, m->node, m);
    return 0;
}

/* Handles a request about names where they are kept, or passes it up. */
static int receive_names(struct exchange *x, const struct received *r, struct err *e)
{
    const struct exchange_message *m = r->m;
    if (m->rank < 0 || m->rank >= x->ranks || m->node != x->rank_nodes[m->rank] ||
        (!x->alone && (r->from <= x->at || !is_from(x, r->from, m->node))) ||
        (m->type == EXCHANGE_PUBLISH && m->key_count != 1) ||
        (m->type == EXCHANGE_LOOKUP && m->key_count == 0))
        return refuse(r, e);
    if (x->at != TREE_LAUNCHER && !x->alone)
        x->ev.send(x->arg, tree_parent(&x->tree, x->at), r->bytes, r->len);
    else if (m->type == EXCHANGE_PUBLISH)
        exchange_names_publish(x, m);
    else if (m->type == EXCHANGE_UNPUBLISH)
        exchange_names_unpublish(x, m);
    else
        exchange_names_lookup(x, m, r->now_ms);
    return 0;
}

int exchange_submit(struct exchange *x, const struct exchange_message *m, int64_t now_ms,
                    struct err *e)
{
    assert(x->at != TREE_LAUNCHER && m->type != EXCHANGE_FENCE_DONE && m->type < EXCHANGE_FOUND);
    struct exchange_message own = *m;
    if (m->type != EXCHANGE_GOT)
        own.node = x->at;
    if (m->type == EXCHANGE_FENCE)
        submit_fence(x, &own);
    else if (m->type == EXCHANGE_GET)
        submit_get(x, &own);
    else if (m->type == EXCHANGE_GOT)
        submit_answer(x, &own);
    else if (x->alone)
        return receive_names(x, &(struct received){.from = x->at, .m = &own, .now_ms = now_ms}, e);
    else
        send_message(x, tree_parent(&x->tree, x->at), &own);
    return 0;
}

/* Learns of a lost node from `from`, and tells the other neighbours. */
static void lose(struct exchange *x, int from, int node)
{
    if (exchange_is_lost(x, node))
        return;
    x->lost = xrealloc(x->lost, x->lost_count + 1, sizeof *x->lost);
    x->lost[x->lost_count++] = node;
    struct exchange_message m = {.type = EXCHANGE_LOST, .node = node, .rank = -1};
    AUTO(strbuf) struct strbuf b = {0};
    exchange_message_encode(&b, &m);
    int parent = x->at == TREE_LAUNCHER ? from : tree_parent(&x->tree, x->at);
    if (parent != from)
        x->ev.send(x->arg, parent, b.data, b.len);
    for (int c = x->first_child; c < x->first_child + x->children; c++)
        if (c != from && !exchange_is_lost(x, c))
            x->ev.send(x->arg, c, b.data, b.len);
    exchange_fence_lose(x, node);
    exchange_names_lose(x);
    lose_gets(x);
}

static int receive_lost(struct exchange *x, const struct received *r, struct err *e)
{
    if (r->m->node == r->from || !is_from(x, r->from, r->m->node) ||
        tree_is_below(&x->tree, r->m->node, x->at))
        return refuse(r, e);
    lose(x, r->from, r->m->node);
    return 0;
}

void exchange_lose(struct exchange *x, int child)
{
    lose(x, child, child);
}

typedef int receive_fn(struct exchange *x, const struct received *r, struct err *e);

static receive_fn *const handlers[EXCHANGE_TYPES] = {
    [EXCHANGE_FENCE] = receive_fence,   [EXCHANGE_FENCE_DONE] = receive_fence_done,
    [EXCHANGE_GET] = receive_get,       [EXCHANGE_GOT] = receive_answer,
    [EXCHANGE_PUBLISH] = receive_names, [EXCHANGE_UNPUBLISH] = receive_names,
    [EXCHANGE_LOOKUP] = receive_names,  [EXCHANGE_FOUND] = receive_answer,
    [EXCHANGE_LOST] = receive_lost,
};

int exchange_receive(struct exchange *x, int from, const char *bytes, size_t len, int64_t now_ms,
                     struct err *e)
{
    bool is_parent = x->at != TREE_LAUNCHER && from == tree_parent(&x->tree, x->at);
    if (!is_parent && !exchange_is_live_child(x, from))
        return 0; /* what a lost child had sent before */
    struct exchange_decoded d;
    int rc = exchange_message_decode(&d, bytes, len, e);
    if (rc < 0)
        return rc;
    rc = handlers[d.m.type](
        x,
        &(struct received){.from = from, .m = &d.m, .bytes = bytes, .len = len, .now_ms = now_ms},
        e);
    free(d.storage);
    return rc;
}
