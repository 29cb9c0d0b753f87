/* expand - a collective made of sends and receives, where a backend has no call for it. */
#ifndef DROVER_P2P_FALLBACK_H
#define DROVER_P2P_FALLBACK_H

#include "collectives/comm/backend.h"

/* This rank's sends and receives, all to begin at once; `out` has room for 2 * size. Says how many.
 * Parts of 0 elements, and a rank's own part that lies in place, are left out. For all_to_all,
 * gather, scatter, all_to_all_v and sendrecv. */
size_t p2p_fallback_expand(struct backend_call *out, const struct backend_call *call, int rank,
                           int size);

#endif
