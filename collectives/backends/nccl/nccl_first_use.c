#include "collectives/backends/nccl/nccl_first_use.h"

#include <stdlib.h>

#include "common/mem.h"

void nccl_first_use_init(struct nccl_first_use *u, int ranks)
{
    u->peers = xcalloc((size_t)ranks, 1);
}

void nccl_first_use_free(struct nccl_first_use *u)
{
    free(u->peers);
    u->peers = NULL;
}

/* The bit in `peers` of a call that works with single ranks; 0: it works with all ranks. */
static unsigned char peer_bit(enum collective coll)
{
    switch (coll) {
    case COLLECTIVE_SEND:
        return 1;
    case COLLECTIVE_RECV:
        return 2;
    case COLLECTIVE_GATHER:
        return 4;
    case COLLECTIVE_SCATTER:
        return 8;
    default:
        return 0;
    }
}

static uint64_t size_bit(const struct backend_call *k)
{
    uint64_t bytes = (uint64_t)k->count * backend_type_bytes(k->type);
    return UINT64_C(1) << (63 - __builtin_clzll(bytes | 1));
}

bool nccl_first_use_check(const struct nccl_first_use *u, const struct backend_call *calls,
                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct backend_call *k = &calls[i];
        unsigned char bit = peer_bit(k->coll);
        if (bit ? !(u->peers[k->root] & bit) : !(u->sizes[k->coll][k->type][k->op] & size_bit(k)))
            return true;
    }
    return false;
}

void nccl_first_use_done(struct nccl_first_use *u, const struct backend_call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct backend_call *k = &calls[i];
        unsigned char bit = peer_bit(k->coll);
        if (bit)
            u->peers[k->root] |= bit;
        else
            u->sizes[k->coll][k->type][k->op] |= size_bit(k);
    }
}
