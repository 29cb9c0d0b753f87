#include "collectives/backends/nccl/nccl_first_use.h"

/* Returns the set that the call is in once it has been made, and sets *bit to its bit there. */
static uint64_t *set_of(struct nccl_first_use *u, const struct backend_call *k, uint64_t *bit)
{
    uint64_t bytes = (uint64_t)k->count * backend_type_bytes(k->type);
    switch (k->coll) {
    case COLLECTIVE_SEND:
    case COLLECTIVE_RECV:
    case COLLECTIVE_GATHER:
    case COLLECTIVE_SCATTER: /* these work with single ranks */
        *bit = UINT64_C(1) << k->coll;
        return &u->peers[k->root];
    default:
        *bit = UINT64_C(1) << (63 - __builtin_clzll(bytes | 1));
        return &u->sizes[k->coll][k->type][k->op];
    }
}

bool nccl_first_use_check(struct nccl_first_use *u, const struct backend_call *calls, size_t n)
{
    uint64_t bit;
    for (size_t i = 0; i < n; i++)
        if (!(*set_of(u, &calls[i], &bit) & bit))
            return true;
    return false;
}

void nccl_first_use_done(struct nccl_first_use *u, const struct backend_call *calls, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t bit, *set = set_of(u, &calls[i], &bit);
        *set |= bit;
    }
}
