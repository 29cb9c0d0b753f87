#include "collectives/comm/p2p_fallback.h"

/* The elements that a rank sends to, or receives from, one peer. */
struct part {
    char *at;     /* NULL: there are none */
    size_t count; /* number of elements */
};

static struct part part_of(enum collective_extent extent, const void *buffer,
                           const struct backend_call *k, const struct drover_parts *varying,
                           int peer)
{
    bool varies = extent == COLLECTIVE_VARYING;
    size_t count = varies ? varying->counts[peer] : k->count;
    size_t first = varies                       ? varying->starts[peer]
                   : extent == COLLECTIVE_PARTS ? (size_t)peer * count
                                                : 0;
    if (count == 0)
        return (struct part){0};
    return (struct part){(char *)buffer + first * backend_type_bytes(k->type), count};
}

/* Returns true if the output of rank `to` has data of rank `from`. */
static bool moves(const struct backend_call *k, int from, int to, int size)
{
    return collective_writes(k->coll, to, k->root) &&
           collective_source_rank(k->coll, to, from, k->root, size) == from;
}

size_t p2p_fallback_expand(struct backend_call *out, const struct backend_call *call, int rank,
                           int size)
{
    const struct collective_row *row = collective_row(call->coll);
    size_t n = 0;
    /* Each rank starts with a different peer, so that not all ranks send to the same peer first. */
    for (int i = 0; i < size; i++) {
        int to = (rank + i) % size, from = (rank - i + size) % size;
        struct part sent = {0}, received = {0};
        if (moves(call, rank, to, size))
            sent = part_of(row->in, call->in, call, call->send, to);
        if (moves(call, from, rank, size))
            received = part_of(row->out, call->out, call, call->recv, from);
        if (i == 0 && sent.at == received.at)
            continue; /* this rank's own part is in place already */
        if (sent.count)
            out[n++] = (struct backend_call){.coll = COLLECTIVE_SEND,
                                             .in = sent.at,
                                             .count = sent.count,
                                             .type = call->type,
                                             .root = to};
        if (received.count)
            out[n++] = (struct backend_call){.coll = COLLECTIVE_RECV,
                                             .out = received.at,
                                             .count = received.count,
                                             .type = call->type,
                                             .root = from};
    }
    return n;
}
