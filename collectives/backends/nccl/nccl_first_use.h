/* nccl_first_use - which calls make NCCL connect ranks.
 *
 * Since 2.22, NCCL connects the ranks when it first uses an algorithm, or a peer, and waits for
 * them. The algorithm depends on the collective, the type, the operation and the size. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collectives/comm/backend.h"

/* Zero-initialised, but for `peers`. */
struct nccl_first_use {
    /* bit k: a call of 2^k to 2^(k+1) - 1 bytes has been made */
    uint64_t sizes[COLLECTIVES][DROVER_TYPES][DROVER_OPS];
    uint64_t *peers; /* one per rank, owned: the bits of send, receive, gather and scatter */
};

/* Returns true if one of the calls may connect ranks. */
bool nccl_first_use_check(struct nccl_first_use *u, const struct backend_call *calls, size_t n);

/* Remembers that the calls have been made. */
void nccl_first_use_done(struct nccl_first_use *u, const struct backend_call *calls, size_t n);
