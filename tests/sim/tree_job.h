/* tree_job - the launcher and the agents of test_tree_sim, with the real tree_members and exchange.
 * What they decide by themselves is only as much as a job needs to start and to end. */
#pragma once

#include "tests/sim/tree_servers.h"
#include "tests/unit/kit_tree.h"

enum { START_LIMIT = 1, EXPIRE, MOVES, FIRST_HELLO, START_LIMIT_MS = 60000 };

static const int64_t ms = 1000000;

enum fault { NONE, NODE_DIES, NODES_DIE, LAUNCHER_DIES, RANK_FAILS, FAULTS };

static struct job {
    uint64_t seed;
    struct tree tree;
    enum fault fault;
    bool carries_on; /* the job ends only when nothing happens any more after a loss */
    int killed[4], killed_count;
    long long events;
    /* The launcher */
    enum { MEETING, RUNNING, KILLING, RELEASING, OVER } state;
    struct tree_members *members;
    struct exchange *x;
    bool *ready, *reaped, *left; /* per node */
    int ready_count, reaped_count;
    int *printed, exited;
    int first_node, first_rank;        /* the first failure; -1: none */
    bool dead, rank_failed, was_early; /* was_early: the fault came before the end */
    bool *has_job;                     /* per node */
    bool watches_moves;                /* a timer runs */
    size_t job_bytes, spec_bytes, topo_bytes;
    int64_t topo_ns; /* the launcher's work for a topology */
    /* Moments, and what was sent until then */
    int64_t started_ns, exchanged_ns, ending_ns, over_ns;
    struct counts *at_start, *at_exchanged;
    int exchanged; /* nodes that have the result of the first fence */
} job;

static void end_job(void);

/* ---- frames --------------------------------------------------------------------------------- */

static void send_up(int node, struct frame f)
{
    if (net.of[node].number)
        network_send(node, net.of[node].peer, f);
    else
        bytes_drop(f.bytes);
}

static void send_down(int at, struct frame f)
{
    int hop = tree_next_hop(&job.tree, at, f.node);
    if (is_connected(hop, at))
        network_send(at, hop, f);
}

static void send_to_children(int at, struct frame f)
{
    int child, count = tree_children(&job.tree, at, &child);
    for (; count > 0; count--, child++)
        if (is_connected(child, at))
            network_send(at, child, f);
}

/* ---- exchange ------------------------------------------------------------------------------- */

static void on_send(void *arg, int to, const char *bytes, size_t len)
{
    int from = (int)(intptr_t)arg;
    bool up = from != TREE_LAUNCHER && to == tree_parent(&job.tree, from);
    CHECK(up || tree_parent(&job.tree, to) == from);
    if (is_connected(up ? from : to, up ? to : from))
        network_send(from, to,
                     (struct frame){.type = EXCHANGE, .node = from, .bytes = bytes_of(bytes, len)});
}

static void on_deliver(void *arg, const struct exchange_message *m)
{
    server_deliver((int)(intptr_t)arg, m);
    if (m->type == EXCHANGE_FENCE_DONE && m->kind == EXCHANGE_MODEX && m->rank_count == 0 &&
        ++job.exchanged == job.tree.nodes) {
        job.exchanged_ns = net.now_ns;
        memcpy(job.at_exchanged, net.counted,
               ((size_t)job.tree.nodes + 1) * sizeof *job.at_exchanged);
    }
}

static struct exchange *instance(int at)
{
    static const struct exchange_events ev = {.send = on_send, .deliver = on_deliver};
    return exchange_new(&job.tree, at, srv.rank_nodes, srv.ranks, &ev, (void *)(intptr_t)at);
}

static void exchange_frame(struct exchange *x, const struct event *ev)
{
    if (!x)
        return;
    struct err e = {0};
    const struct bytes *b = net.current = ev->frame.bytes;
    if (exchange_receive(x, ev->from, b->data, b->len, net.now_ns / ms, &e) < 0)
        FAIL("%d refuses what %d sends: %s", ev->to, ev->from, e.text);
    net.current = NULL;
}

/* ---- the launcher --------------------------------------------------------------------------- */

static void on_move(void *arg, int node, const char *address)
{
    if (!job.watches_moves)
        timer(TREE_LAUNCHER, (TREE_MEMBERS_MOVE_MS + 1) * ms, MOVES);
    job.watches_moves = true;
    if (job.state == MEETING)
        network_send(
            TREE_LAUNCHER, node,
            (struct frame){.type = MOVE, .node = node, .value = atoi(address), .size = 32});
}

static void on_joined(void *arg, int node)
{
    int first;
    if (tree_parent(&job.tree, node) == TREE_LAUNCHER)
        send_down(TREE_LAUNCHER, (struct frame){.type = JOB, .node = node, .size = job.job_bytes});
    if (tree_children(&job.tree, node, &first) > 0)
        send_down(TREE_LAUNCHER, (struct frame){.type = LISTEN, .node = node});
    send_down(TREE_LAUNCHER, (struct frame){.type = TOPO_REQUEST, .node = node});
}

static void on_lost(void *arg, int node)
{
    job.reaped_count -= job.reaped[node];
    if (job.first_node < 0 && job.first_rank < 0 && job.state < RELEASING)
        job.first_node = node;
}

/* Ends the job if all is over that has to be. */
static void check_end(void)
{
    if (job.state == RUNNING && job.exited == srv.ranks)
        end_job();
    int first;
    if (job.state == KILLING && job.reaped_count == kit_tree_count(job.members, job.tree.nodes,
                                                                   TREE_MEMBER_JOINED, &first)) {
        job.state = RELEASING;
        send_to_children(TREE_LAUNCHER, (struct frame){.type = EXIT_AGENT, .node = -1});
    }
}

static void end_job(void)
{
    if (job.state >= KILLING)
        return;
    job.state = KILLING;
    job.ending_ns = net.now_ns;
    send_to_children(TREE_LAUNCHER, (struct frame){.type = KILL_TREE, .node = -1});
    for (int i = 0; i < job.tree.nodes; i++) /* agents that have no place yet */
        if (tree_members_state(job.members, i) != TREE_MEMBER_JOINED &&
            is_connected(i, TREE_LAUNCHER))
            network_disconnect(i, TREE_LAUNCHER, false);
    check_end();
}

static void lost(int node)
{
    bool was_meeting = job.state == MEETING;
    tree_members_lose(job.members, node);
    if (was_meeting || !job.carries_on)
        end_job();
    check_end();
}

static void start_limit(void)
{
    static const enum tree_member_state late[] = {TREE_MEMBER_EXPECTED, TREE_MEMBER_MOVING,
                                                  TREE_MEMBER_WAITING};
    for (size_t i = 0; i < COUNT_OF(late) && job.state == MEETING; i++) {
        int node;
        if (kit_tree_count(job.members, job.tree.nodes, late[i], &node) > 0) {
            if (job.first_node < 0)
                job.first_node = node;
            end_job();
        }
    }
    CHECK(job.state != MEETING); /* someone is missing */
}

static void on_ready(int node)
{
    CHECK(!job.ready[node]);
    job.ready[node] = true;
    if (++job.ready_count < job.tree.nodes || job.state != MEETING)
        return;
    job.state = RUNNING;
    job.started_ns = net.now_ns;
    memcpy(job.at_start, net.counted, ((size_t)job.tree.nodes + 1) * sizeof *job.at_start);
    send_to_children(TREE_LAUNCHER, (struct frame){.type = START, .node = -1, .size = 40});
}

static void on_exited(const struct frame *f)
{
    job.exited++;
    if (f->value != 0 && job.first_node < 0 && job.first_rank < 0)
        job.first_rank = f->rank;
    if (f->value != 0)
        end_job();
    check_end();
}

static void hello(const struct event *ev)
{
    /* What comes from another node than the one that it is from comes through the node's parent. */
    int node = ev->frame.node;
    int via = ev->from == node ? TREE_LAUNCHER : tree_parent(&job.tree, node);
    if (job.state != MEETING && ev->from == node) { /* it comes too late */
        network_disconnect(node, TREE_LAUNCHER, false);
        return;
    }
    int rc = tree_members_hello(job.members, node, via, net.now_ns / ms);
    if (rc < 0 && tree_members_state(job.members, node) != TREE_MEMBER_LOST)
        FAIL("the hello of node %d is refused: %d", node, rc);
    if (job.state != MEETING)
        send_down(TREE_LAUNCHER, (struct frame){.type = KILL_TREE, .node = node});
}

static void expire(void)
{
    int64_t next_ms = exchange_expire(job.x, net.now_ns / ms);
    if (next_ms < INT64_MAX)
        timer(TREE_LAUNCHER, next_ms * ms - net.now_ns, EXPIRE);
}

static void lose_late(void)
{
    int64_t next_ms;
    int node = tree_members_late(job.members, net.now_ns / ms, &next_ms);
    for (; node >= 0 && job.state < RELEASING;
         node = tree_members_late(job.members, net.now_ns / ms, &next_ms))
        lost(node);
    job.watches_moves = next_ms < INT64_MAX;
    if (job.watches_moves)
        timer(TREE_LAUNCHER, (next_ms + 1) * ms - net.now_ns, MOVES);
}

static void launcher_timer(int what)
{
    if (what == EXPIRE)
        expire();
    else if (what == MOVES)
        lose_late();
    else if (job.state == MEETING)
        start_limit();
}

static void launcher_exchange(const struct event *ev)
{
    exchange_frame(job.x, ev);
    expire();
}

static void launcher_closed(int node)
{
    if (job.state >= RELEASING || tree_members_state(job.members, node) == TREE_MEMBER_MOVING)
        return;
    if (tree_parent(&job.tree, node) == TREE_LAUNCHER)
        exchange_lose(job.x, node);
    lost(node);
}

static void launcher_receive(const struct event *ev)
{
    const struct frame *f = &ev->frame;
    char address[16];
    switch (f->type) {
    case HELLO:
        hello(ev);
        break;
    case TOPO:
        net.now_ns = net.handles_ns[0] += job.topo_ns;
        send_down(TREE_LAUNCHER,
                  (struct frame){.type = NODE_SPEC, .node = f->node, .size = job.spec_bytes});
        break;
    case LISTENING:
        snprintf(address, sizeof address, "%d", f->node);
        tree_members_listening(job.members, f->node, address, net.now_ns / ms);
        break;
    case READY:
        on_ready(f->node);
        break;
    case EXCHANGE:
        launcher_exchange(ev);
        break;
    case OUTPUT:
        CHECK_INT(f->value, job.printed[f->rank]);
        job.printed[f->rank]++;
        break;
    case EXIT:
        on_exited(f);
        break;
    case REAPED:
        job.reaped_count +=
            !job.reaped[f->node] && tree_members_state(job.members, f->node) == TREE_MEMBER_JOINED;
        job.reaped[f->node] = true;
        check_end();
        break;
    case LOST:
        lost(f->node);
        break;
    case CLOSED:
        launcher_closed(ev->from);
        break;
    case TIMER:
        launcher_timer(f->value);
        break;
    default:
        FAIL("the launcher gets a frame %d", f->type);
    }
}

/* ---- agents --------------------------------------------------------------------------------- */

/* The ranks of the node end, without a report. */
static void kill_ranks(int node)
{
    for (int i = 0; i < srv.at[node].count; i++)
        srv.of[srv.at[node].ranks[i]].over = true;
}

/* The agent ends, by itself or not: its connections end. */
static void agent_ends(int node, bool dies)
{
    if (srv.dead[node] || job.left[node])
        return;
    *(dies ? &srv.dead[node] : &job.left[node]) = true;
    kill_ranks(node);
    network_disconnect(node, node, dies);
    int child, count = tree_children(&job.tree, node, &child);
    for (; count > 0; count--, child++)
        if (is_connected(child, node))
            network_disconnect(child, node, dies);
}

static void kill_node(int node)
{
    for (int i = node; i < job.tree.nodes; i++)
        srv.lost[i] |= tree_is_below(&job.tree, node, i);
    agent_ends(node, true);
}

static void kill_launcher(void)
{
    job.dead = true;
    for (int i = 0; i < job.tree.nodes; i++)
        if (is_connected(i, TREE_LAUNCHER))
            network_disconnect(i, TREE_LAUNCHER, true);
}

static void on_print(int rank, int op)
{
    int seq = 0; /* the number of this output */
    for (int i = 0; i < op; i++)
        seq += srv.ops[i].what == PRINT && takes_part(&srv.ops[i], rank);
    int node = srv.rank_nodes[rank];
    send_up(
        node,
        (struct frame){
            .type = OUTPUT, .node = node, .rank = rank, .value = seq, .size = srv.ops[op].size});
}

static void on_rank_exit(int rank, int status)
{
    job.rank_failed |= status != 0;
    int node = srv.rank_nodes[rank];
    send_up(node, (struct frame){.type = EXIT, .node = node, .rank = rank, .value = status});
}

static void agent_moves(int node, int parent)
{
    network_leave(node);
    if (srv.dead[parent] || job.left[parent]) { /* cannot be reached */
        kill_node(node);
        return;
    }
    network_connect(node, parent);
    send_up(node, (struct frame){.type = HELLO, .node = node, .size = 100});
}

static void agent_closed(int node, const struct event *ev)
{
    if (ev->frame.node == node) { /* by the parent */
        kill_node(node);
        return;
    }
    if (job.left[ev->from])
        return;
    if (srv.at[node].x)
        exchange_lose(srv.at[node].x, ev->from);
    send_up(node, (struct frame){.type = LOST, .node = ev->from, .size = 40});
}

static void agent_exit(int node)
{
    agent_ends(node, false);
    job.over_ns = net.now_ns;
}

/* What is for this agent. */
static void agent_handle(int node, const struct event *ev)
{
    const struct frame *f = &ev->frame;
    switch (f->type) {
    case TOPO_REQUEST:
        send_up(node, (struct frame){.type = TOPO, .node = node, .size = job.topo_bytes});
        break;
    case LISTEN:
        send_up(node, (struct frame){.type = LISTENING, .node = node, .size = 32});
        break;
    case MOVE:
        agent_moves(node, f->value);
        break;
    case JOB:
        job.has_job[node] = true;
        break;
    case NODE_SPEC:
        CHECK(job.has_job[node]);
        srv.at[node].x = instance(node);
        send_up(node, (struct frame){.type = READY, .node = node});
        break;
    case START:
        srv.at[node].started = true;
        break;
    case KILL_TREE:
        kill_ranks(node);
        send_up(node, (struct frame){.type = REAPED, .node = node});
        break;
    case EXIT_AGENT:
        agent_exit(node);
        break;
    default:
        FAIL("agent %d gets a frame %d", node, f->type);
    }
}

static void agent_receive(int node, const struct event *ev)
{
    struct frame f = ev->frame;
    if (srv.dead[node] || job.left[node])
        return;
    if (f.type == TIMER && job.dead) { /* cannot be reached */
        kill_node(node);
    } else if (f.type == TIMER) {
        network_connect(node, TREE_LAUNCHER);
        send_up(node, (struct frame){.type = HELLO, .node = node, .size = 100});
    } else if (f.type == CLOSED) {
        agent_closed(node, ev);
    } else if (f.type == EXCHANGE) {
        exchange_frame(srv.at[node].x, ev);
    } else if (ev->from > node) {
        CHECK(f.type != HELLO || f.node != ev->from || tree_parent(&job.tree, f.node) == node);
        send_up(node, f);
        if (f.type == HELLO && f.node == ev->from)
            send_down(node, (struct frame){.type = JOB, .node = f.node, .size = job.job_bytes});
    } else if (f.node == node) {
        agent_handle(node, ev);
    } else if (f.node == -1) {
        send_to_children(node, f);
        agent_handle(node, ev);
    } else {
        send_down(node, f);
    }
}

/* ---- a job ---------------------------------------------------------------------------------- */

static void job_open(uint64_t seed, const struct tree *t, const struct costs *costs)
{
    static const struct tree_members_events ev = {on_move, on_joined, on_lost};
    size_t nodes = (size_t)t->nodes;
    network_open(t->nodes, costs, seed);
    job = (struct job){.seed = seed, .tree = *t, .first_node = -1, .first_rank = -1};
    job.members = tree_members_new(t, &ev, NULL);
    job.ready = xcalloc(nodes, sizeof *job.ready);
    job.reaped = xcalloc(nodes, sizeof *job.reaped);
    job.left = xcalloc(nodes, sizeof *job.left);
    job.has_job = xcalloc(nodes, sizeof *job.has_job);
    job.at_start = xcalloc(nodes + 1, sizeof *job.at_start);
    job.at_exchanged = xcalloc(nodes + 1, sizeof *job.at_exchanged);
    job.job_bytes = 4000;
    job.spec_bytes = 1000;
    job.topo_bytes = 1000;
}

/* Takes over `rank_nodes`. */
static void job_ranks(int *rank_nodes, int ranks)
{
    servers_open(&job.tree, rank_nodes, ranks);
    srv.print = on_print;
    srv.exit = on_rank_exit;
    job.printed = xcalloc((size_t)ranks, sizeof *job.printed);
    job.x = instance(TREE_LAUNCHER);
}

static void job_close(void)
{
    exchange_free(job.x);
    tree_members_free(job.members);
    free(job.ready);
    free(job.reaped);
    free(job.left);
    free(job.has_job);
    free(job.printed);
    free(job.at_start);
    free(job.at_exchanged);
    servers_close();
    network_close();
}
