/* tree_servers - the ranks of test_tree_sim and the PMIx servers of their nodes, as far as exchange
 * sees them. All ranks have one list of operations, as ranks of an MPI program have, and each
 * carries out those that it takes part in, one after the other. Each answer is checked. */
#pragma once

#include "launcher/tree/exchange.h"
#include "tests/sim/tree_network.h"

enum { OPS_MAX = 24 };

struct op {
    enum { FENCE, GET, PUBLISH, LOOKUP, PRINT, PRINTS_KINDS } what;
    enum exchange_kind kind; /* FENCE */
    const char *name;        /* FENCE: NULL: none */
    bool nowait;             /* FENCE: ranks go on before it has ended */
    int32_t *ranks;          /* that take part, ascending; NULL: all */
    int count;
    int target;      /* GET: the rank; LOOKUP: the operation that publishes */
    int distance;    /* GET: if not 0, a rank asks the rank that is so far from it */
    int64_t wait_ms; /* LOOKUP */
    size_t size;     /* of a rank's data, or of the output */
    /* The result, which is the same for all. */
    bool ended;
    int status;
    uint64_t id;
};

struct record { /* a rank's data begin with this */
    int32_t op, rank;
};

struct rank {
    int next; /* operation */
    bool waits;
    bool over; /* has exited, or was killed */
};

struct request { /* GET, PUBLISH, LOOKUP; its index is the id */
    int rank, op;
    bool answered;
};

struct server {
    struct exchange *x; /* NULL: no node_spec yet */
    int *ranks, count;  /* of this node */
    int came[OPS_MAX];  /* local participants that have come to the fence; -1: it has ended */
    bool submitted[OPS_MAX];
    struct request *requests;
    uint64_t request_count;
    bool started; /* its ranks run */
    bool woken;   /* there are answers for its ranks */
};

static struct servers {
    struct tree tree;
    int *rank_nodes, ranks;
    struct op ops[OPS_MAX];
    int op_count;
    struct rank *of;      /* per rank */
    struct server *at;    /* per node */
    bool *dead;           /* nodes that died; what is on them is gone */
    bool *lost;           /* those and all nodes below them, which are about to die */
    int *seen, seen_last; /* per rank: in which check its data were seen */
    uint64_t *ids;        /* of fences */
    int id_count;
    long long answers, failed; /* to requests and fences, and those with EXCHANGE_FAILED */
    void (*print)(int rank, int op);
    void (*exit)(int rank, int status);
    int fails_rank, fails_op; /* this rank exits with 1 at this operation; -1: none */
} srv;

/* ---- who takes part ------------------------------------------------------------------------- */

static inline bool takes_part(const struct op *o, int rank)
{
    if (!o->ranks)
        return true;
    int low = 0, high = o->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (o->ranks[middle] < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < o->count && o->ranks[low] == rank;
}

static inline int participants_at(const struct op *o, const struct server *s)
{
    int count = 0;
    for (int i = 0; i < s->count; i++)
        count += takes_part(o, s->ranks[i]);
    return count;
}

static inline bool has_lost(const struct op *o)
{
    for (int i = 0; i < (o->ranks ? o->count : srv.ranks); i++)
        if (srv.lost[srv.rank_nodes[o->ranks ? o->ranks[i] : i]])
            return true;
    return false;
}

/* ---- requests ------------------------------------------------------------------------------- */

static inline struct exchange_message message_of(enum exchange_type type, int op)
{
    const struct op *o = &srv.ops[op];
    struct exchange_message m = {.type = type, .kind = o->kind, .rank = -1};
    m.ranks = o->ranks;
    m.rank_count = o->ranks ? (size_t)o->count : 0;
    m.keys = &o->name;
    m.key_count = o->name != NULL;
    return m;
}

static inline void add_record(struct strbuf *b, int op, int rank, size_t size)
{
    struct record r = {op, rank};
    strbuf_reserve(b, size);
    memset(b->data + b->len, 0, size);
    memcpy(b->data + b->len, &r, sizeof r);
    b->len += size;
}

static inline void submit_fence(struct server *s, int op)
{
    AUTO(strbuf) struct strbuf data = {0};
    for (int i = 0; i < s->count; i++)
        if (takes_part(&srv.ops[op], s->ranks[i]))
            add_record(&data, op, s->ranks[i], srv.ops[op].size);
    struct exchange_message m = message_of(EXCHANGE_FENCE, op);
    m.data = data.data;
    m.len = data.len;
    s->submitted[op] = true;
    (void)exchange_submit(s->x, &m, 0, NULL);
}

static inline int target_of(const struct op *o, int rank)
{
    return o->distance ? (int)(((long long)rank + o->distance + srv.ranks) % srv.ranks) : o->target;
}

static inline void submit_request(struct server *s, int op, int rank)
{
    const struct op *o = &srv.ops[op];
    static const enum exchange_type types[] = {
        [GET] = EXCHANGE_GET, [PUBLISH] = EXCHANGE_PUBLISH, [LOOKUP] = EXCHANGE_LOOKUP};
    char key[16];
    snprintf(key, sizeof key, "name%d", o->what == LOOKUP ? o->target : op);
    const char *keys[] = {key};
    AUTO(strbuf) struct strbuf data = {0};
    if (o->what == PUBLISH)
        add_record(&data, op, rank, o->size);
    s->requests = xrealloc(s->requests, s->request_count + 1, sizeof *s->requests);
    s->requests[s->request_count] = (struct request){.rank = rank, .op = op};
    (void)exchange_submit(
        s->x,
        &(struct exchange_message){.type = types[o->what],
                                   .rank = o->what == GET ? target_of(o, rank) : rank,
                                   .id = s->request_count++,
                                   .wait_ms = o->wait_ms,
                                   .keys = keys,
                                   .key_count = o->what != GET,
                                   .data = data.data,
                                   .len = data.len},
        0, NULL);
}

/* ---- the ranks ------------------------------------------------------------------------------ */

/* A rank does one operation. Returns false if it has to wait. */
static inline bool step(struct server *s, int rank)
{
    struct rank *r = &srv.of[rank];
    int op = r->next;
    struct op *o = &srv.ops[op];
    if (!takes_part(o, rank)) {
        r->next++;
        return true;
    }
    if (rank == srv.fails_rank && op >= srv.fails_op) {
        r->over = true;
        srv.exit(rank, 1);
        return false;
    }
    if (o->what == PRINT) {
        srv.print(rank, op);
        r->next++;
        return true;
    }
    r->waits = o->what != FENCE || !o->nowait;
    r->next += !r->waits;
    if (o->what != FENCE)
        submit_request(s, op, rank);
    else if (++s->came[op] == participants_at(o, s))
        submit_fence(s, op);
    return !r->waits;
}

/* All ranks of the node that do not wait go on. */
static inline void server_run(int node)
{
    struct server *s = &srv.at[node];
    for (bool again = s->started; again;) {
        s->woken = false;
        for (int i = 0; i < s->count && !srv.dead[node]; i++) {
            struct rank *r = &srv.of[s->ranks[i]];
            while (!r->over && !r->waits && r->next < srv.op_count && step(s, s->ranks[i]))
                ;
            if (!r->over && !r->waits && r->next == srv.op_count) {
                r->over = true;
                srv.exit(s->ranks[i], 0);
            }
        }
        again = s->woken;
    }
}

static inline void wake(struct server *s, int rank, int op)
{
    struct rank *r = &srv.of[rank];
    s->woken = true;
    if (r->waits && r->next == op) {
        r->waits = false;
        r->next++;
    }
}

/* ---- answers -------------------------------------------------------------------------------- */

/* The data of a fence are those of each participant once. */
static inline void check_data(int op, const struct exchange_message *m)
{
    const struct op *o = &srv.ops[op];
    bool shared = net.current && m->data >= net.current->data &&
                  m->data < net.current->data + net.current->len;
    if (shared && net.current->checked)
        return;
    int count = o->ranks ? o->count : srv.ranks;
    if (m->len != (size_t)count * o->size)
        FAIL("fence %d has %zu bytes, not those of %d ranks", op, m->len, count);
    srv.seen_last++;
    for (size_t at = 0; at < m->len; at += o->size) {
        struct record r;
        memcpy(&r, m->data + at, sizeof r);
        if (r.op != op || r.rank < 0 || r.rank >= srv.ranks || !takes_part(o, r.rank) ||
            srv.seen[r.rank] == srv.seen_last)
            FAIL("fence %d has data of fence %d, rank %d", op, r.op, r.rank);
        srv.seen[r.rank] = srv.seen_last;
    }
    if (shared)
        net.current->checked = true;
}

/* All get the same result, and its number occurs once. */
static inline void check_result(int op, const struct exchange_message *m)
{
    struct op *o = &srv.ops[op];
    if (m->status != EXCHANGE_OK && (m->status != EXCHANGE_FAILED || !has_lost(o)))
        FAIL("fence %d ends with %d, but no node of it is lost", op, m->status);
    if (o->ended && (o->status != m->status || o->id != m->id))
        FAIL("fence %d has two results", op);
    if (!o->ended) {
        for (int i = 0; i < srv.id_count; i++)
            CHECK(srv.ids[i] != m->id);
        srv.ids[srv.id_count++] = m->id;
    }
    CHECK(m->id > 0);
    o->ended = true;
    o->status = m->status;
    o->id = m->id;
    if (m->status == EXCHANGE_OK)
        check_data(op, m);
}

static inline void on_fence_done(struct server *s, const struct exchange_message *m)
{
    int op = 0;
    for (; op < srv.op_count; op++) {
        const struct op *o = &srv.ops[op];
        const char *name = m->key_count ? m->keys[0] : NULL;
        if (o->what == FENCE && s->submitted[op] && s->came[op] >= 0 && o->kind == m->kind &&
            (o->name && name ? strcmp(o->name, name) == 0 : o->name == name) &&
            m->rank_count == (o->ranks ? (size_t)o->count : 0) &&
            (!o->ranks || memcmp(o->ranks, m->ranks, m->rank_count * sizeof *m->ranks) == 0))
            break;
    }
    if (op == srv.op_count)
        FAIL("node %d gets the end of a fence that it is not in", (int)(s - srv.at));
    s->came[op] = -1;
    check_result(op, m);
    for (int i = 0; i < s->count; i++)
        wake(s, s->ranks[i], op);
}

/* The data are those of the rank or name that was asked for. */
static inline void check_answer(const struct op *o, int rank, const struct exchange_message *m)
{
    int target = target_of(o, rank);
    struct record r = {-1, -1};
    if (m->len >= sizeof r)
        memcpy(&r, m->data, sizeof r);
    if (o->what == GET && m->status == EXCHANGE_OK)
        CHECK_INT(r.rank, target);
    else if (o->what == GET && (m->status != EXCHANGE_FAILED || !srv.lost[srv.rank_nodes[target]]))
        FAIL("a request for rank %d ends with %d", target, m->status);
    if (o->what == PUBLISH)
        CHECK_INT(m->status, EXCHANGE_OK);
    if (o->what == LOOKUP && m->status == EXCHANGE_OK)
        CHECK_INT(r.op, o->target);
    else if (o->what == LOOKUP)
        CHECK(m->status == (o->wait_ms ? EXCHANGE_TIMEOUT : EXCHANGE_NOT_FOUND));
}

static inline void on_answer(struct server *s, const struct exchange_message *m)
{
    if (m->id >= s->request_count || s->requests[m->id].answered)
        FAIL("node %d gets an answer that it does not wait for", (int)(s - srv.at));
    struct request *q = &s->requests[m->id];
    q->answered = true;
    check_answer(&srv.ops[q->op], q->rank, m);
    wake(s, q->rank, q->op);
}

static inline void on_get(struct server *s, const struct exchange_message *m)
{
    CHECK_INT(srv.rank_nodes[m->rank], s - srv.at);
    AUTO(strbuf) struct strbuf data = {0};
    add_record(&data, 0, m->rank, 200);
    (void)exchange_submit(s->x,
                          &(struct exchange_message){.type = EXCHANGE_GOT,
                                                     .node = m->node,
                                                     .rank = -1,
                                                     .id = m->id,
                                                     .data = data.data,
                                                     .len = data.len},
                          0, NULL);
}

static inline void server_deliver(int node, const struct exchange_message *m)
{
    struct server *s = &srv.at[node];
    if (m->type == EXCHANGE_GET) {
        on_get(s, m);
        return;
    }
    srv.answers++;
    srv.failed += m->status == EXCHANGE_FAILED;
    if (m->type == EXCHANGE_FENCE_DONE)
        on_fence_done(s, m);
    else
        on_answer(s, m);
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* Takes over `rank_nodes`. */
static inline void servers_open(const struct tree *t, int *rank_nodes, int ranks)
{
    srv = (struct servers){.tree = *t, .rank_nodes = rank_nodes, .ranks = ranks, .fails_rank = -1};
    srv.of = xcalloc((size_t)ranks, sizeof *srv.of);
    srv.at = xcalloc((size_t)t->nodes, sizeof *srv.at);
    srv.lost = xcalloc((size_t)t->nodes, sizeof *srv.lost);
    srv.dead = xcalloc((size_t)t->nodes, sizeof *srv.dead);
    srv.seen = xcalloc((size_t)ranks, sizeof *srv.seen);
    srv.ids = xcalloc(OPS_MAX, sizeof *srv.ids);
    for (int i = 0; i < ranks; i++)
        srv.at[rank_nodes[i]].count++;
    for (int i = 0; i < t->nodes; i++) {
        srv.at[i].ranks = xcalloc((size_t)srv.at[i].count + 1, sizeof(int));
        srv.at[i].count = 0;
    }
    for (int i = 0; i < ranks; i++) {
        struct server *s = &srv.at[rank_nodes[i]];
        s->ranks[s->count++] = i;
    }
}

static inline void servers_close(void)
{
    for (int i = 0; i < srv.tree.nodes; i++) {
        exchange_free(srv.at[i].x);
        free(srv.at[i].ranks);
        free(srv.at[i].requests);
    }
    for (int i = 0; i < srv.op_count; i++)
        free(srv.ops[i].ranks);
    free(srv.rank_nodes);
    free(srv.of);
    free(srv.at);
    free(srv.dead);
    free(srv.lost);
    free(srv.seen);
    free(srv.ids);
}
