#include "launcher/elastic/rdzv_policy.h"

#include <stdio.h>
#include <string.h>

#include "common/strbuf.h"

enum state {
    JOINED,  /* waits for the next attempt */
    RUNNING, /* its ranks do */
    DONE,    /* they ended well; others' may run */
    STOPPING /* was told to end them, or they failed: it joins again, or leaves */
};

struct member {
    struct rdzv_policy_node node;
    enum state state;
};

struct rdzv_policy {
    struct rdzv_policy_opts want;
    struct member *members; /* in the order in which they came */
    size_t count, cap;
    int64_t since_ms;  /* it is waited for nodes since then … */
    int64_t enough_ms; /* … and there have been enough since then; -1: there are not */
    bool over;
    struct rdzv_policy_action *actions;
    size_t action_count, action_cap;
};

struct rdzv_policy *rdzv_policy_new(const struct rdzv_policy_opts *want, int64_t now_ms)
{
    struct rdzv_policy *r = xzalloc(sizeof *r);
    r->want = *want;
    r->since_ms = now_ms;
    r->enough_ms = -1;
    return r;
}

void rdzv_policy_free(struct rdzv_policy *r)
{
    if (!r)
        return;
    free(r->members);
    free(r->actions);
    free(r);
}

static struct member *find(struct rdzv_policy *r, int id)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->members[i].node.id == id)
            return &r->members[i];
    return NULL;
}

static void forget(struct rdzv_policy *r, struct member *m)
{
    size_t at = (size_t)(m - r->members);
    memmove(m, m + 1, (--r->count - at) * sizeof *m);
}

static size_t count(const struct rdzv_policy *r, enum state s)
{
    size_t n = 0;
    for (size_t i = 0; i < r->count; i++)
        n += r->members[i].state == s;
    return n;
}

/* Nodes of the attempt that is not over yet. */
static size_t busy(const struct rdzv_policy *r)
{
    return r->count - count(r, JOINED);
}

static struct rdzv_policy_action *act(struct rdzv_policy *r, enum rdzv_policy_reply say, int id,
                                      const char *why)
{
    if (r->action_count == r->action_cap) {
        r->action_cap = r->action_cap ? 2 * r->action_cap : 8;
        r->actions = xrealloc(r->actions, r->action_cap, sizeof *r->actions);
    }
    struct rdzv_policy_action *a = &r->actions[r->action_count++];
    *a = (struct rdzv_policy_action){.say = say, .id = id};
    snprintf(a->why, sizeof a->why, "%s", why ? why : "");
    return a;
}

/* ---- an attempt's end ------------------------------------------------------------------------ */

static void stop_all(struct rdzv_policy *r, bool failure, const char *why)
{
    for (size_t i = 0; i < r->count; i++) {
        struct member *m = &r->members[i];
        if (m->state != RUNNING && m->state != DONE)
            continue;
        m->state = STOPPING;
        act(r, RDZV_POLICY_STOP, m->node.id, why)->failure = failure;
    }
}

static void end_if_done(struct rdzv_policy *r)
{
    if (r->over || count(r, DONE) == 0 || count(r, DONE) < busy(r))
        return;
    r->over = true;
    for (size_t i = 0; i < r->count; i++)
        if (r->members[i].state == DONE)
            act(r, RDZV_POLICY_JOB_DONE, r->members[i].node.id, NULL);
        else
            act(r, RDZV_POLICY_REJECT, r->members[i].node.id, "the job is over");
}

/* ---- an attempt's start ---------------------------------------------------------------------- */

/* The host first, then by name, then in the order in which they came. */
static bool stands_before(const struct member *a, const struct member *b)
{
    if (a->node.host != b->node.host)
        return a->node.host;
    int by_name = strcmp(a->node.name, b->node.name);
    return by_name < 0 || (by_name == 0 && a < b);
}

static void place_all(struct rdzv_policy *r)
{
    const struct member *first = NULL;
    int nodes = 0, world = 0;
    for (size_t i = 0; i < r->count && nodes < r->want.nodes_max; i++) {
        struct member *m = &r->members[i];
        m->state = RUNNING;
        nodes++;
        world += m->node.ranks;
        if (!first || stands_before(m, first))
            first = m;
    }
    for (int i = 0; i < nodes; i++) {
        const struct member *m = &r->members[i];
        struct rdzv_policy_action *a = act(r, RDZV_POLICY_ASSIGN, m->node.id, NULL);
        a->nodes = nodes;
        a->world_size = world;
        a->port = first->node.port;
        memcpy(a->address, first->node.address, sizeof a->address);
        for (int k = 0; k < nodes; k++) {
            if (k == i || !stands_before(&r->members[k], m))
                continue;
            a->node++;
            a->first_rank += r->members[k].node.ranks;
        }
    }
}

static void refuse_all(struct rdzv_policy *r)
{
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_printf(&b, "%zu of %d nodes came in %g s:", r->count, r->want.nodes_min,
                  (double)r->want.join_ms / 1000);
    for (size_t i = 0; i < r->count; i++)
        strbuf_printf(&b, " %s", r->members[i].node.name);
    while (r->count > 0) {
        act(r, RDZV_POLICY_REJECT, r->members[0].node.id, strbuf_str(&b));
        forget(r, &r->members[0]);
    }
}

static void start_if_ready(struct rdzv_policy *r, int64_t now_ms)
{
    if (busy(r) > 0 || r->over)
        return;
    if ((int)r->count < r->want.nodes_min)
        r->enough_ms = -1;
    else if (r->enough_ms < 0)
        r->enough_ms = now_ms;
    if ((int)r->count >= r->want.nodes_max ||
        (r->enough_ms >= 0 && now_ms - r->enough_ms >= r->want.last_call_ms))
        place_all(r);
    else if (r->count > 0 && r->enough_ms < 0 && now_ms - r->since_ms >= r->want.join_ms)
        refuse_all(r);
}

/* The attempt ended in failure; waiting begins again with those that come back. */
static void wait_again(struct rdzv_policy *r, int64_t now_ms)
{
    r->since_ms = now_ms;
    r->enough_ms = -1;
}

/* ---- what nodes say -------------------------------------------------------------------------- */

size_t rdzv_policy_join(struct rdzv_policy *r, const struct rdzv_policy_node *n, int64_t now_ms)
{
    char why[2 * RDZV_POLICY_NAME_MAX];
    r->action_count = 0;
    if (r->over) {
        act(r, RDZV_POLICY_REJECT, n->id, "the job is over");
        return r->action_count;
    }
    struct member *m = find(r, n->id);
    if (!m) {
        if (r->count == r->cap) {
            r->cap = r->cap ? 2 * r->cap : 8;
            r->members = xrealloc(r->members, r->cap, sizeof *r->members);
        }
        m = &r->members[r->count++];
        snprintf(why, sizeof why, "%s has come", n->name);
        if (r->count > 1 && (int)r->count <= r->want.nodes_max)
            stop_all(r, false, why);
    }
    *m = (struct member){*n, JOINED};
    if (busy(r) == 0 && r->enough_ms < 0 && count(r, JOINED) == 1)
        r->since_ms = now_ms;
    start_if_ready(r, now_ms);
    return r->action_count;
}

size_t rdzv_policy_ended(struct rdzv_policy *r, int id, bool well, const char *why, int64_t now_ms)
{
    struct member *m = find(r, id);
    r->action_count = 0;
    if (!m || m->state != RUNNING)
        return 0;
    if (well) {
        m->state = DONE;
    } else {
        char text[2 * RDZV_POLICY_NAME_MAX];
        snprintf(text, sizeof text, "%s: %s", m->node.name, why);
        stop_all(r, true, text);
        wait_again(r, now_ms);
    }
    end_if_done(r);
    return r->action_count;
}

size_t rdzv_policy_left(struct rdzv_policy *r, int id, const char *why, int64_t now_ms)
{
    struct member *m = find(r, id);
    r->action_count = 0;
    if (!m)
        return 0;
    char text[2 * RDZV_POLICY_NAME_MAX];
    snprintf(text, sizeof text, "%s: %s", m->node.name, why);
    bool ran = m->state == RUNNING;
    forget(r, m);
    if (ran && !r->over) {
        stop_all(r, true, text);
        wait_again(r, now_ms);
    }
    end_if_done(r);
    start_if_ready(r, now_ms);
    return r->action_count;
}

size_t rdzv_policy_timeout(struct rdzv_policy *r, int64_t now_ms)
{
    r->action_count = 0;
    start_if_ready(r, now_ms);
    return r->action_count;
}

const struct rdzv_policy_action *rdzv_policy_action(const struct rdzv_policy *r, size_t i)
{
    return &r->actions[i];
}

int64_t rdzv_policy_deadline(const struct rdzv_policy *r)
{
    if (r->over || r->count == 0 || busy(r) > 0)
        return INT64_MAX;
    return r->enough_ms >= 0 ? r->enough_ms + r->want.last_call_ms : r->since_ms + r->want.join_ms;
}
