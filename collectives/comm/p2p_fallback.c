#include "collectives/comm/p2p_fallback.h"

struct list {
    struct backend_call *calls;
    size_t n;
    enum drover_type type;
};

static void send_to(struct list *l, int rank, const void *base, size_t first, size_t count)
{
    if (count)
        l->calls[l->n++] = (struct backend_call){
            .coll = BACKEND_SEND,
            .in = (const char *)base + first * backend_type_bytes(l->type),
            .count = count,
            .type = l->type,
            .root = rank,
        };
}

static void receive_from(struct list *l, int rank, void *base, size_t first, size_t count)
{
    if (count)
        l->calls[l->n++] = (struct backend_call){
            .coll = BACKEND_RECV,
            .out = (char *)base + first * backend_type_bytes(l->type),
            .count = count,
            .type = l->type,
            .root = rank,
        };
}

/* Each rank begins with another one, so that not all send to the same one first. */
static void all_to_all(struct list *l, const struct backend_call *k, int rank, int size)
{
    bool v = k->coll == BACKEND_ALL_TO_ALL_V;
    for (int i = 0; i < size; i++) {
        int to = (rank + i) % size, from = (rank - i + size) % size;
        send_to(l, to, k->in, v ? k->send->starts[to] : (size_t)to * k->count,
                v ? k->send->counts[to] : k->count);
        receive_from(l, from, k->out, v ? k->recv->starts[from] : (size_t)from * k->count,
                     v ? k->recv->counts[from] : k->count);
    }
}

static void gather(struct list *l, const struct backend_call *k, int rank, int size)
{
    size_t bytes = k->count * backend_type_bytes(k->type);
    bool root = rank == k->root;
    bool own = root && k->in == (const char *)k->out + (size_t)rank * bytes;
    if (!own)
        send_to(l, k->root, k->in, 0, k->count);
    for (int r = 0; root && r < size; r++)
        if (r != rank || !own)
            receive_from(l, r, k->out, (size_t)r * k->count, k->count);
}

static void scatter(struct list *l, const struct backend_call *k, int rank, int size)
{
    size_t bytes = k->count * backend_type_bytes(k->type);
    bool root = rank == k->root;
    bool own = root && k->out == (const char *)k->in + (size_t)rank * bytes;
    for (int r = 0; root && r < size; r++)
        if (r != rank || !own)
            send_to(l, r, k->in, (size_t)r * k->count, k->count);
    if (!own)
        receive_from(l, k->root, k->out, 0, k->count);
}

size_t p2p_fallback_expand(struct backend_call *out, const struct backend_call *call, int rank,
                           int size)
{
    struct list l = {.calls = out, .type = call->type};
    switch (call->coll) {
    case BACKEND_GATHER:
        gather(&l, call, rank, size);
        break;
    case BACKEND_SCATTER:
        scatter(&l, call, rank, size);
        break;
    case BACKEND_SENDRECV:
        send_to(&l, (rank + 1) % size, call->in, 0, call->count);
        receive_from(&l, (rank - 1 + size) % size, call->out, 0, call->count);
        break;
    default:
        all_to_all(&l, call, rank, size);
        break;
    }
    return l.n;
}
