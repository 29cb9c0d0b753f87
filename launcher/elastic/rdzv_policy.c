#include "launcher/elastic/rdzv_policy.h"

#include <stdio.h>
#include <string.h>

#include "common/plural.h"
#include "common/strbuf.h"

enum state {
    JOINED,    /* waits for the next attempt */
    RUNNING,   /* its ranks run */
    SUCCEEDED, /* its ranks succeeded; those of other nodes may still run */
    STOPPING   /* it was told to stop its ranks, or they failed; it joins again, or leaves */
};

struct member {
    struct rdzv_policy_node node;
    enum state state;
};

struct rdzv_policy {
    struct rdzv_policy_opts opts;
    struct member *members; /* in the order in which they joined */
    size_t count;
    int64_t since_ms;  /* when the wait for nodes began */
    int64_t enough_ms; /* time at which nodes_min nodes had joined; -1: fewer have */
    bool over;
    struct rdzv_policy_action *actions;
    size_t action_count;
};

struct rdzv_policy *rdzv_policy_new(const struct rdzv_policy_opts *opts, int64_t now_ms)
{
    struct rdzv_policy *r = xzalloc(sizeof *r);
    r->opts = *opts;
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

static void remove_member(struct rdzv_policy *r, struct member *m)
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

/* Returns the number of nodes in an attempt that has not ended on all nodes. */
static size_t busy(const struct rdzv_policy *r)
{
    return r->count - count(r, JOINED);
}

static struct rdzv_policy_action *add_action(struct rdzv_policy *r, enum rdzv_policy_reply reply,
                                             int id, const char *why)
{
    r->actions = xrealloc(r->actions, r->action_count + 1, sizeof *r->actions);
    struct rdzv_policy_action *a = &r->actions[r->action_count++];
    *a = (struct rdzv_policy_action){.reply = reply, .id = id};
    snprintf(a->why, sizeof a->why, "%s", why ? why : "");
    return a;
}

/* ---- an attempt's end ----------------------------------------------------------------------- */

static void stop_all(struct rdzv_policy *r, bool failure, const char *why)
{
    for (size_t i = 0; i < r->count; i++) {
        struct member *m = &r->members[i];
        if (m->state != RUNNING && m->state != SUCCEEDED)
            continue;
        m->state = STOPPING;
        add_action(r, RDZV_POLICY_STOP, m->node.id, why)->failure = failure;
    }
}

static void end_if_done(struct rdzv_policy *r)
{
    if (r->over || count(r, SUCCEEDED) == 0 || count(r, SUCCEEDED) < busy(r))
        return;
    r->over = true;
    for (size_t i = 0; i < r->count; i++)
        if (r->members[i].state == SUCCEEDED)
            add_action(r, RDZV_POLICY_JOB_DONE, r->members[i].node.id, NULL);
        else
            add_action(r, RDZV_POLICY_REJECT, r->members[i].node.id, "the job has ended");
}

/* ---- an attempt's start --------------------------------------------------------------------- */

/* Returns true if `a` precedes `b` in the order of nodes: the server's node is first; the others
 * follow by name, then in the order in which they joined. */
static bool precedes(const struct member *a, const struct member *b)
{
    if (a->node.host != b->node.host)
        return a->node.host;
    int by_name = strcmp(a->node.name, b->node.name);
    return by_name < 0 || (by_name == 0 && a < b);
}

static void assign_all(struct rdzv_policy *r)
{
    const struct member *first = NULL;
    int nodes = 0, world = 0;
    for (size_t i = 0; i < r->count && nodes < r->opts.nodes_max; i++) {
        struct member *m = &r->members[i];
        m->state = RUNNING;
        nodes++;
        world += m->node.ranks;
        if (!first || precedes(m, first))
            first = m;
    }
    for (int i = 0; i < nodes; i++) {
        const struct member *m = &r->members[i];
        struct rdzv_policy_action *a = add_action(r, RDZV_POLICY_ASSIGN, m->node.id, NULL);
        a->nodes = nodes;
        a->world_size = world;
        a->port = first->node.port;
        memcpy(a->address, first->node.address, sizeof a->address);
        for (int k = 0; k < nodes; k++) {
            if (k == i || !precedes(&r->members[k], m))
                continue;
            a->node++;
            a->first_rank += r->members[k].node.ranks;
        }
    }
}

static void reject_all(struct rdzv_policy *r)
{
    AUTO(strbuf) struct strbuf b = {0};
    strbuf_printf(&b, "%zu of %d node%s joined in %g s:", r->count, r->opts.nodes_min,
                  plural_s(r->opts.nodes_min), (double)r->opts.join_ms / 1000);
    for (size_t i = 0; i < r->count; i++)
        strbuf_printf(&b, " %s", r->members[i].node.name);
    while (r->count > 0) {
        add_action(r, RDZV_POLICY_REJECT, r->members[0].node.id, strbuf_str(&b));
        remove_member(r, &r->members[0]);
    }
}

static void start_if_ready(struct rdzv_policy *r, int64_t now_ms)
{
    if (busy(r) > 0 || r->over)
        return;
    if ((int)r->count < r->opts.nodes_min)
        r->enough_ms = -1;
    else if (r->enough_ms < 0)
        r->enough_ms = now_ms;
    if ((int)r->count >= r->opts.nodes_max ||
        (r->enough_ms >= 0 && now_ms - r->enough_ms >= r->opts.last_call_ms))
        assign_all(r);
    else if (r->count > 0 && r->enough_ms < 0 && now_ms - r->since_ms >= r->opts.join_ms)
        reject_all(r);
}

/* A node has failed: ends the attempt, and starts the wait for nodes again. */
static void fail(struct rdzv_policy *r, const char *name, const char *why, int64_t now_ms)
{
    char text[2 * RDZV_POLICY_NAME_MAX];
    snprintf(text, sizeof text, "%s: %s", name, why);
    stop_all(r, true, text);
    r->since_ms = now_ms;
    r->enough_ms = -1;
}

/* ---- messages of nodes ---------------------------------------------------------------------- */

size_t rdzv_policy_join(struct rdzv_policy *r, const struct rdzv_policy_node *n, int64_t now_ms)
{
    char why[2 * RDZV_POLICY_NAME_MAX];
    r->action_count = 0;
    if (r->over) {
        add_action(r, RDZV_POLICY_REJECT, n->id, "the job has ended");
        return r->action_count;
    }
    struct member *m = find(r, n->id);
    if (!m) {
        r->members = xrealloc(r->members, r->count + 1, sizeof *r->members);
        m = &r->members[r->count++];
        snprintf(why, sizeof why, "%s joined", n->name);
        if (r->count > 1 && (int)r->count <= r->opts.nodes_max)
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
    if (well)
        m->state = SUCCEEDED;
    else
        fail(r, m->node.name, why, now_ms);
    end_if_done(r);
    return r->action_count;
}

size_t rdzv_policy_finish(struct rdzv_policy *r)
{
    r->action_count = 0;
    r->over = true;
    for (size_t i = 0; i < r->count; i++)
        if (r->members[i].state == JOINED)
            add_action(r, RDZV_POLICY_REJECT, r->members[i].node.id, "the job has ended");
    return r->action_count;
}

size_t rdzv_policy_left(struct rdzv_policy *r, int id, const char *why, int64_t now_ms)
{
    struct member *m = find(r, id);
    r->action_count = 0;
    if (!m)
        return 0;
    struct member left = *m;
    remove_member(r, m);
    if (left.state == RUNNING && !r->over)
        fail(r, left.node.name, why, now_ms);
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
    return r->enough_ms >= 0 ? r->enough_ms + r->opts.last_call_ms : r->since_ms + r->opts.join_ms;
}
