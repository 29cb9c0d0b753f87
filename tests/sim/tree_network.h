/* tree_network - the virtual network of test_tree_sim: a clock, connections whose frames arrive in
 * order after a time, the ends of connections, and counts of what was sent. Nodes are numbered as
 * in tree.h; the launcher is -1. */
#pragma once

#include <limits.h>

#include "common/rng.h"
#include "launcher/tree/tree_members.h"
#include "tests/unit/test.h"

enum { FRAME_BYTES = 80 }; /* of a frame besides its payload: lengths, JSON, the cipher's tag */

enum frame_type {
    HELLO,
    TOPO_REQUEST,
    TOPO,
    LISTEN,
    LISTENING,
    MOVE,
    JOB,
    NODE_SPEC,
    READY,
    START,
    EXCHANGE,
    OUTPUT,
    EXIT,
    KILL_TREE,
    REAPED,
    LOST,
    EXIT_AGENT,
    CLOSED, /* not a frame: the other end has closed the connection */
    TIMER   /* not a frame: the receiver has set it */
};

/* The payload of a frame, shared by those who get it. */
struct bytes {
    int refs;
    size_t len;
    bool checked; /* its contents are right */
    char data[];
};

struct frame {
    enum frame_type type;
    int node; /* that it is from or for; -1 on the way down: all */
    int rank, value;
    size_t size; /* of the payload, if `bytes` is NULL */
    struct bytes *bytes;
};

struct event {
    int64_t at_ns;
    uint64_t number; /* events of one time keep their order */
    int from, to;
    int connection; /* the number of the connection; 0: a timer */
    struct frame frame;
};

/* Each agent has one connection: to the launcher, or to its parent. */
struct connection {
    int peer;
    int number;             /* 0: closed */
    int64_t up_ns, down_ns; /* when the last frame arrives */
};

struct counts {
    long long sent, received, sent_bytes, received_bytes;
};

/* What a message costs. */
struct costs {
    int64_t latency_ns, jitter_ns; /* the latency and what is added at random */
    int64_t message_ns;            /* of sending one or of receiving one */
    double bytes_per_ns;
};

static struct network {
    struct costs costs;
    struct rng rng;
    int64_t now_ns;
    struct event *heap;
    size_t count, cap;
    uint64_t numbered;
    int connections; /* opened so far */
    int nodes;
    struct connection *of;          /* per node */
    int64_t *sends_ns, *handles_ns; /* until when a node sends and handles; [0] is the launcher */
    struct counts *counted;         /* [0] is the launcher */
    int launcher_connections, launcher_connections_max;
    struct bytes *current; /* the payload of the frame that is handled */
    struct bytes *last;    /* the last payload that was sent, to share it */
} net;

static inline uint64_t below(uint64_t n)
{
    return rng_below(&net.rng, n);
}

/* ---- payloads ------------------------------------------------------------------------------- */

static inline struct bytes *bytes_ref(struct bytes *b)
{
    if (b)
        b->refs++;
    return b;
}

static inline void bytes_drop(struct bytes *b)
{
    if (b && --b->refs == 0)
        free(b);
}

/* Returns a payload with these bytes: the one that is handled, the last one, or a new one. */
static inline struct bytes *bytes_of(const char *data, size_t len)
{
    if (net.current && data == net.current->data && len == net.current->len)
        return bytes_ref(net.current);
    if (net.last && net.last->len == len && memcmp(net.last->data, data, len) == 0)
        return bytes_ref(net.last);
    struct bytes *b = xrealloc(NULL, sizeof *b + len, 1);
    *b = (struct bytes){.refs = 1, .len = len};
    memcpy(b->data, data, len);
    bytes_drop(net.last);
    net.last = bytes_ref(b);
    return b;
}

/* ---- events, in a heap ---------------------------------------------------------------------- */

static inline bool precedes(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

static inline void push(struct event ev)
{
    ev.number = net.numbered++;
    if (net.count == net.cap) {
        net.cap = net.cap ? 2 * net.cap : 1024;
        net.heap = xrealloc(net.heap, net.cap, sizeof *net.heap);
    }
    size_t i = net.count++;
    for (; i > 0 && precedes(&ev, &net.heap[(i - 1) / 2]); i = (i - 1) / 2)
        net.heap[i] = net.heap[(i - 1) / 2];
    net.heap[i] = ev;
}

static inline struct event pop(void)
{
    struct event first = net.heap[0], last = net.heap[--net.count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < net.count; i = child) {
        if (child + 1 < net.count && precedes(&net.heap[child + 1], &net.heap[child]))
            child++;
        if (!precedes(&net.heap[child], &last))
            break;
        net.heap[i] = net.heap[child];
    }
    net.heap[i] = last;
    return first;
}

/* ---- the network ---------------------------------------------------------------------------- */

static inline void network_open(int nodes, const struct costs *costs, uint64_t seed)
{
    net = (struct network){.nodes = nodes, .costs = *costs};
    rng_seed(&net.rng, seed, 41);
    net.of = xcalloc((size_t)nodes, sizeof *net.of);
    net.sends_ns = xcalloc((size_t)nodes + 1, sizeof *net.sends_ns);
    net.handles_ns = xcalloc((size_t)nodes + 1, sizeof *net.handles_ns);
    net.counted = xcalloc((size_t)nodes + 1, sizeof *net.counted);
}

static inline void network_close(void)
{
    while (net.count > 0)
        bytes_drop(net.heap[--net.count].frame.bytes);
    bytes_drop(net.last);
    free(net.heap);
    free(net.of);
    free(net.sends_ns);
    free(net.handles_ns);
    free(net.counted);
}

static inline void timer(int node, int64_t in_ns, int value)
{
    push((struct event){.at_ns = net.now_ns + in_ns,
                        .from = node,
                        .to = node,
                        .frame = {.type = TIMER, .node = node, .value = value}});
}

static inline bool is_connected(int node, int peer)
{
    return net.of[node].number && net.of[node].peer == peer;
}

/* Connects an agent that is not connected. */
static inline void network_connect(int node, int peer)
{
    CHECK(!net.of[node].number);
    net.of[node] = (struct connection){.peer = peer, .number = ++net.connections};
    if (peer == TREE_LAUNCHER && ++net.launcher_connections > net.launcher_connections_max)
        net.launcher_connections_max = net.launcher_connections;
}

/* Returns when `bytes` that `from` sends arrive. */
static inline int64_t arrival(int from, size_t bytes, int64_t *last_ns)
{
    int64_t *sends = &net.sends_ns[from + 1];
    *sends = (*sends > net.now_ns ? *sends : net.now_ns) + net.costs.message_ns +
             (int64_t)((double)bytes / net.costs.bytes_per_ns);
    int64_t at = *sends + net.costs.latency_ns;
    if (net.costs.jitter_ns)
        at += (int64_t)below((uint64_t)net.costs.jitter_ns);
    return *last_ns = at > *last_ns ? at : *last_ns;
}

/* Sends a frame to a neighbour. It takes over the reference to the payload. */
static inline void network_send(int from, int to, struct frame f)
{
    int agent = from > to ? from : to; /* whose connection it is: a parent's number is less */
    if (!is_connected(agent, from > to ? to : from))
        FAIL("%d sends a frame %d to %d, which is not connected to it", from, f.type, to);
    struct connection *c = &net.of[agent];
    size_t size = FRAME_BYTES + (f.bytes ? f.bytes->len : f.size);
    net.counted[from + 1].sent++;
    net.counted[from + 1].sent_bytes += (long long)size;
    push((struct event){.at_ns = arrival(from, size, from > to ? &c->up_ns : &c->down_ns),
                        .from = from,
                        .to = to,
                        .connection = c->number,
                        .frame = f});
}

/* One end closes the connection of `agent`. The other end learns that after the last frame; or, if
 * the end has died, at some moment, and the frames that are still on their way are lost. */
static inline void network_disconnect(int agent, int end, bool dies)
{
    struct connection *c = &net.of[agent];
    if (!c->number)
        return;
    int other = end == agent ? c->peer : agent;
    int64_t at = dies ? net.now_ns + (int64_t)below((uint64_t)net.costs.latency_ns * 4 + 1)
                      : arrival(end, 0, end == agent ? &c->up_ns : &c->down_ns);
    push((struct event){.at_ns = at,
                        .from = end,
                        .to = other,
                        .connection = c->number,
                        .frame = {.type = CLOSED, .node = agent, .value = c->number}});
}

/* The agent leaves the launcher, which expects that. */
static inline void network_leave(int agent)
{
    net.launcher_connections--;
    net.of[agent].number = 0;
}

/* Returns true if the event reaches its receiver: its connection is still open. */
static inline bool network_receive(const struct event *ev)
{
    net.now_ns = ev->at_ns;
    if (ev->connection == 0)
        return true;
    int agent = ev->from > ev->to ? ev->from : ev->to;
    if (net.of[agent].number != ev->connection)
        return false;
    if (ev->frame.type == CLOSED) {
        net.launcher_connections -= net.of[agent].peer == TREE_LAUNCHER;
        net.of[agent].number = 0;
        return true;
    }
    int64_t *handles = &net.handles_ns[ev->to + 1];
    net.now_ns = (*handles > net.now_ns ? *handles : net.now_ns) + net.costs.message_ns;
    *handles = net.now_ns;
    net.counted[ev->to + 1].received++;
    net.counted[ev->to + 1].received_bytes +=
        (long long)(FRAME_BYTES + (ev->frame.bytes ? ev->frame.bytes->len : ev->frame.size));
    return true;
}
