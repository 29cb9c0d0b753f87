#include "launcher/tree/tree_members.h"

#include <errno.h>

#define ROW(...) STATES_ROW(TREE_MEMBER, __VA_ARGS__)
static const struct states_row rows[] = {
    ROW(EXPECTED, CALL, WAITING), /* it has the launcher's address only */
    ROW(EXPECTED, ENTER, JOINED), /* the launcher is its parent */
    ROW(EXPECTED, LOSE, LOST),    /* a node above it is lost */
    ROW(WAITING, MOVE, MOVING),   /* it closes its connection to the launcher */
    ROW(WAITING, LOSE, LOST),     /* its connection has ended */
    ROW(MOVING, ENTER, JOINED),   /* the usual end of the start */
    ROW(MOVING, LOSE, LOST),      /* a node above it is lost, or it does not arrive */
    ROW(JOINED, LOSE, LOST),      /* its connection has ended */
};

const struct states tree_member_states = STATES_TABLE(rows);

struct tree_members {
    struct tree tree;
    struct tree_members_events ev;
    void *arg;
    struct {
        enum tree_member_state state;
        char *address;    /* at which it listens; NULL: it does not */
        int64_t moved_ms; /* when it was told to move */
    } * nodes;
};

struct tree_members *tree_members_new(const struct tree *t, const struct tree_members_events *ev,
                                      void *arg)
{
    struct tree_members *m = xzalloc(sizeof *m);
    *m = (struct tree_members){.tree = *t, .ev = *ev, .arg = arg};
    m->nodes = xcalloc((size_t)t->nodes, sizeof *m->nodes);
    return m;
}

void tree_members_free(struct tree_members *m)
{
    if (!m)
        return;
    for (int i = 0; i < m->tree.nodes; i++)
        free(m->nodes[i].address);
    free(m->nodes);
    free(m);
}

static bool apply(struct tree_members *m, int node, enum tree_member_event ev)
{
    int next = states_next(&tree_member_states, m->nodes[node].state, ev);
    if (next < 0)
        return false;
    m->nodes[node].state = (enum tree_member_state)next;
    return true;
}

static void move(struct tree_members *m, int node, const char *address, int64_t now_ms)
{
    if (!apply(m, node, TREE_MEMBER_EV_MOVE))
        return;
    m->nodes[node].moved_ms = now_ms;
    m->ev.move(m->arg, node, address);
}

int tree_members_hello(struct tree_members *m, int node, int via, int64_t now_ms)
{
    if (node < 0 || node >= m->tree.nodes)
        return -EINVAL;
    int parent = tree_parent(&m->tree, node);
    if (via != TREE_LAUNCHER && via != parent)
        return -EINVAL;
    bool enters = via == parent;
    if (!apply(m, node, enters ? TREE_MEMBER_EV_ENTER : TREE_MEMBER_EV_CALL))
        return -EEXIST;
    if (enters)
        m->ev.joined(m->arg, node);
    else if (m->nodes[parent].address)
        move(m, node, m->nodes[parent].address, now_ms);
    return 0;
}

void tree_members_listening(struct tree_members *m, int node, const char *address, int64_t now_ms)
{
    if (m->nodes[node].state != TREE_MEMBER_JOINED || m->nodes[node].address)
        return;
    m->nodes[node].address = xstrdup(address);
    int child, count = tree_children(&m->tree, node, &child);
    for (; count > 0; count--, child++)
        move(m, child, m->nodes[node].address, now_ms);
}

int tree_members_late(const struct tree_members *m, int64_t now_ms, int64_t *next_ms)
{
    *next_ms = INT64_MAX;
    for (int i = 0; i < m->tree.nodes; i++) {
        int64_t limit_ms = m->nodes[i].moved_ms + TREE_MEMBERS_MOVE_MS;
        if (m->nodes[i].state != TREE_MEMBER_MOVING)
            continue;
        if (limit_ms <= now_ms)
            return i;
        *next_ms = limit_ms < *next_ms ? limit_ms : *next_ms;
    }
    return -1;
}

static void lose_below(struct tree_members *m, int node)
{
    if (apply(m, node, TREE_MEMBER_EV_LOSE))
        m->ev.lost(m->arg, node);
    int child, count = tree_children(&m->tree, node, &child);
    for (; count > 0; count--, child++)
        lose_below(m, child);
}

void tree_members_lose(struct tree_members *m, int node)
{
    if (m->nodes[node].state != TREE_MEMBER_LOST)
        lose_below(m, node);
}

enum tree_member_state tree_members_state(const struct tree_members *m, int node)
{
    return m->nodes[node].state;
}
