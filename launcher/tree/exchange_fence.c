/* The fences of an instance.
 *
 * An instance takes part in a fence if participants are here or below. It ends the fence if none is
 * elsewhere and they are not all below one child. Each instance that takes part sends exactly one
 * message up and gets exactly one result, even if the fence fails: then it sends its message as
 * soon as it knows, or on receipt of the result. So messages of one child about fences of the same
 * participants count in order. */
#include <errno.h>

#include "launcher/tree/exchange_internal.h"

enum { AWAITED = 1, CAME = 2 };

enum fence_phase {
    FENCE_GATHERS, /* contributions are gathered */
    FENCE_SETTLED, /* the message up is sent: the result is awaited */
    FENCE_ENDED    /* has its result: contributions that come late are counted, and dropped */
};

struct exchange_fence {
    struct exchange_fence *next;
    enum exchange_kind kind;
    char *name;     /* NULL: none */
    int32_t *ranks; /* NULL: all */
    size_t rank_count;
    unsigned char *child; /* AWAITED | CAME of each child, and of this node's server at the end */
    bool ends_here;
    enum fence_phase phase;
    bool failed;        /* the result will be EXCHANGE_FAILED */
    int missing;        /* contributions that have not come and may still come */
    int status;         /* the result */
    uint64_t id;        /* the result's */
    struct strbuf data; /* contributions */
};

/* ---- participants --------------------------------------------------------------------------- */

static void add_node(struct exchange_parts *parts, const struct exchange *x, int node)
{
    int hop = x->children > 0 ? tree_next_hop(&x->tree, x->at, node) : TREE_LAUNCHER - 1;
    if (node == x->at) {
        parts->own = true;
    } else if (hop < TREE_LAUNCHER) {
        parts->elsewhere = true;
    } else if (!parts->child[hop - x->first_child]) {
        parts->child[hop - x->first_child] = 1;
        parts->children++;
    }
    if (x->lost_count > 0 && !parts->lost)
        parts->lost = exchange_is_lost(x, node);
}

/* Finds out the same for all ranks of the job at a node without children, where it is much less
 * work. */
static void find_all_at_leaf(struct exchange_parts *parts, const struct exchange *x)
{
    for (int i = 0; i < x->ranks && !(parts->own && parts->elsewhere); i++)
        *(x->rank_nodes[i] == x->at ? &parts->own : &parts->elsewhere) = true;
}

int exchange_parts_find(struct exchange_parts *parts, const struct exchange *x,
                        const int32_t *ranks, size_t count)
{
    struct exchange_parts found = {.child = xcalloc((size_t)x->children + 1, 1)};
    int last = -1, node = TREE_LAUNCHER; /* ranks of a node are often neighbours */
    if (count == 0 && x->children == 0)
        find_all_at_leaf(&found, x);
    else
        for (size_t i = 0; i < (count ? count : (size_t)x->ranks); i++) {
            int rank = count ? ranks[i] : (int)i;
            if (rank <= last || rank >= x->ranks) {
                free(found.child);
                return -EBADMSG;
            }
            if (x->rank_nodes[rank] != node)
                add_node(&found, x, node = x->rank_nodes[rank]);
            last = rank;
        }
    *parts = found;
    return 0;
}

/* Returns true if this instance takes part in the fence. */
static bool takes_part(const struct exchange_parts *p)
{
    return p->elsewhere ? p->own || p->children > 0 : p->own || p->children > 1;
}

/* ---- the list ------------------------------------------------------------------------------- */

static struct exchange_message message_of(const struct exchange_fence *f, enum exchange_type type)
{
    return (struct exchange_message){.type = type,
                                     .kind = f->kind,
                                     .node = -1,
                                     .rank = -1,
                                     .ranks = f->ranks,
                                     .rank_count = f->rank_count,
                                     .keys = (const char *const *)&f->name,
                                     .key_count = f->name != NULL};
}

static bool is_about(const struct exchange_fence *f, const struct exchange_message *m)
{
    struct exchange_message own = message_of(f, EXCHANGE_FENCE);
    return exchange_message_same_fence(&own, m);
}

static void fence_free(struct exchange_fence *f)
{
    free(f->name);
    free(f->ranks);
    free(f->child);
    strbuf_free(&f->data);
    free(f);
}

void exchange_fence_free_all(struct exchange *x)
{
    while (x->fences) {
        struct exchange_fence *f = x->fences;
        x->fences = f->next;
        fence_free(f);
    }
}

/* Adds a fence. */
static struct exchange_fence *fence_new(struct exchange *x, const struct exchange_message *m,
                                        const struct exchange_parts *parts)
{
    struct exchange_fence *f = xzalloc(sizeof *f);
    f->kind = m->kind;
    f->name = m->key_count > 0 ? xstrdup(m->keys[0]) : NULL;
    f->rank_count = m->rank_count;
    if (m->rank_count > 0) {
        f->ranks = xcalloc(m->rank_count, sizeof *f->ranks);
        memcpy(f->ranks, m->ranks, m->rank_count * sizeof *f->ranks);
    }
    f->child = xcalloc((size_t)x->children + 1, 1);
    for (int i = 0; i < x->children; i++)
        if (parts->child[i]) {
            bool live = x->lost_count == 0 || exchange_is_live_child(x, x->first_child + i);
            f->child[i] = (unsigned char)(live ? AWAITED : AWAITED | CAME);
            f->missing += live;
        }
    f->child[x->children] = parts->own ? AWAITED : 0;
    f->missing += parts->own;
    f->ends_here = !parts->elsewhere;
    f->failed = parts->lost;
    struct exchange_fence **end = &x->fences;
    while (*end)
        end = &(*end)->next;
    return *end = f;
}

/* Removes the fence if nothing more can come. */
static void remove_if_over(struct exchange *x, struct exchange_fence *f)
{
    if (f->phase != FENCE_ENDED || f->missing > 0)
        return;
    struct exchange_fence **at = &x->fences;
    while (*at != f)
        at = &(*at)->next;
    *at = f->next;
    fence_free(f);
}

/* ---- progress ------------------------------------------------------------------------------- */

/* Gives the result to this node's server. */
static void deliver(struct exchange *x, const struct exchange_fence *f, const char *data,
                    size_t len)
{
    struct exchange_message m = message_of(f, EXCHANGE_FENCE_DONE);
    m.status = f->status;
    m.id = f->id;
    m.data = data;
    m.len = len;
    x->ev.deliver(x->arg, &m);
}

/* Sends the encoded result to the children that take part, and gives it to the server if the server
 * has contributed. The fence has its result; it may be gone afterwards. */
static void send_result(struct exchange *x, struct exchange_fence *f,
                        const struct exchange_message *m, const char *bytes, size_t len)
{
    f->phase = FENCE_ENDED;
    f->status = m->status;
    f->id = m->id;
    for (int i = 0; i < x->children; i++)
        if (f->child[i] && (x->lost_count == 0 || exchange_is_live_child(x, x->first_child + i)))
            x->ev.send(x->arg, x->first_child + i, bytes, len);
    if (f->child[x->children] == (AWAITED | CAME))
        deliver(x, f, m->data, m->len);
    remove_if_over(x, f);
}

/* Ends the fence here, or sends its message up. */
static void settle(struct exchange *x, struct exchange_fence *f)
{
    struct exchange_message m = message_of(f, f->ends_here ? EXCHANGE_FENCE_DONE : EXCHANGE_FENCE);
    m.status = f->failed ? EXCHANGE_FAILED : EXCHANGE_OK;
    m.data = f->failed ? NULL : f->data.data;
    m.len = f->failed ? 0 : f->data.len;
    if (f->ends_here) /* Only this instance makes numbers with this remainder. */
        m.id = ++x->fences_ended * ((uint64_t)x->tree.nodes + 1) + (uint64_t)(x->at + 1);
    f->phase = FENCE_SETTLED;
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_reserve(&b, m.len + 256);
    exchange_message_encode(&b, &m);
    AUTO(strbuf) struct strbuf data = f->data; /* the result has it, the fence may be gone */
    f->data = (struct strbuf){0};
    if (f->ends_here)
        send_result(x, f, &m, b.data, b.len);
    else
        x->ev.send(x->arg, tree_parent(&x->tree, x->at), b.data, b.len);
}

/* Returns true if no fence of the same participants that still gathers precedes this one. */
static bool is_next(const struct exchange *x, const struct exchange_fence *f)
{
    struct exchange_message m = message_of(f, EXCHANGE_FENCE);
    const struct exchange_fence *first = x->fences;
    while (first->phase != FENCE_GATHERS || !is_about(first, &m))
        first = first->next;
    return first == f;
}

/* Settles what can be settled. */
static void settle_all(struct exchange *x)
{
    for (struct exchange_fence *f = x->fences; f;)
        if (f->phase == FENCE_GATHERS && (f->failed || f->missing == 0) && is_next(x, f)) {
            settle(x, f);
            f = x->fences; /* the list may have changed */
        } else {
            f = f->next;
        }
}

/* ---- events --------------------------------------------------------------------------------- */

/* A list of all ranks is the same as none. */
static struct exchange_message normal(const struct exchange *x, const struct exchange_message *m)
{
    struct exchange_message n = *m;
    if (m->rank_count == (size_t)x->ranks)
        n.rank_count = 0;
    return n;
}

/* Counts a contribution. Returns false if this contributor has contributed already, or is not
 * one. */
static bool count(const struct exchange *x, struct exchange_fence *f, int from)
{
    unsigned char *child = &f->child[from == x->at ? x->children : from - x->first_child];
    if (*child != AWAITED)
        return false;
    *child |= CAME;
    f->missing--;
    return true;
}

static bool has_participants(const struct exchange *x, const struct exchange_parts *p, int from)
{
    if (from < x->at) /* the parent */
        return p->elsewhere;
    return from == x->at ? p->own : p->child[from - x->first_child];
}

/* Adds the fence that a message of `from` is the first about. */
static int open_fence(struct exchange_fence **out, struct exchange *x, int from,
                      const struct exchange_message *m, struct err *e)
{
    AUTO(free) unsigned char *child = NULL;
    struct exchange_parts parts = x->all;
    if (m->rank_count > 0) {
        if (exchange_parts_find(&parts, x, m->ranks, m->rank_count) < 0)
            return err_set(e, -EBADMSG, "a fence has ranks that the job does not have");
        child = parts.child;
    }
    if (!takes_part(&parts) || !has_participants(x, &parts, from))
        return err_set(e, -EBADMSG, "node %d gets a message about a fence of others from %d", x->at,
                       from);
    *out = fence_new(x, m, &parts);
    return 0;
}

int exchange_fence_contribute(struct exchange *x, int from, const struct exchange_message *message,
                              struct err *e)
{
    struct exchange_message m = normal(x, message);
    struct exchange_fence *f = x->fences;
    while (f && !(is_about(f, &m) && count(x, f, from)))
        f = f->next;
    if (!f) {
        if (open_fence(&f, x, from, &m, e) < 0)
            return -EBADMSG;
        count(x, f, from);
    }
    if (f->phase == FENCE_ENDED) { /* it has failed before */
        if (from == x->at)
            deliver(x, f, NULL, 0);
        remove_if_over(x, f);
        return 0;
    }
    f->failed |= m.status != EXCHANGE_OK;
    if (f->phase == FENCE_GATHERS)
        strbuf_add(&f->data, m.data, m.len);
    settle_all(x);
    return 0;
}

int exchange_fence_end(struct exchange *x, const struct exchange_message *message,
                       const char *bytes, size_t len, struct err *e)
{
    struct exchange_message m = normal(x, message);
    struct exchange_fence *f = x->fences;
    while (f && (f->phase == FENCE_ENDED || !is_about(f, &m)))
        f = f->next;
    if (f ? f->ends_here || (m.status == EXCHANGE_OK && f->phase == FENCE_GATHERS)
          : m.status == EXCHANGE_OK)
        return err_set(e, -EBADMSG, "a fence ends too early at node %d", x->at);
    if (!f && open_fence(&f, x, tree_parent(&x->tree, x->at), &m, e) < 0)
        return -EBADMSG;
    if (f->phase == FENCE_GATHERS) {
        f->failed = true;
        settle(x, f);
    }
    send_result(x, f, &m, bytes, len);
    return 0;
}

/* Returns true if a participant is at the node or below it. */
static bool has_below(const struct exchange *x, const struct exchange_fence *f, int top)
{
    if (f->rank_count == 0)
        return x->all.lost;
    for (size_t i = 0; i < f->rank_count; i++)
        if (tree_is_below(&x->tree, top, x->rank_nodes[f->ranks[i]]))
            return true;
    return false;
}

void exchange_fence_lose(struct exchange *x, int node)
{
    for (int i = 0; i < x->ranks && !x->all.lost; i++)
        x->all.lost = exchange_is_lost(x, x->rank_nodes[i]);
    bool is_child = node >= x->first_child && node < x->first_child + x->children;
    for (struct exchange_fence *f = x->fences, *next; f; f = next) {
        next = f->next;
        f->failed |= f->phase == FENCE_GATHERS && has_below(x, f, node);
        if (is_child && f->child[node - x->first_child]) {
            count(x, f, node);
            remove_if_over(x, f);
        }
    }
    settle_all(x);
}
