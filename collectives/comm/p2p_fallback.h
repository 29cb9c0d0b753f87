/* p2p_fallback - a collective made of sends and receives, for backends without a call for it. */
#ifndef DROVER_P2P_FALLBACK_H
#define DROVER_P2P_FALLBACK_H

#include "collectives/comm/backend.h"

/* Writes this rank's sends and receives, which must all start together, to `out`, which has room
 * for 2 * size calls, and returns their number. The row of the collective says what moves where.
 * Parts of 0 elements, and a rank's own part that is already in its place, are left out. For
 * collectives that move data; not for those that reduce. */
size_t p2p_fallback_expand(struct backend_call *out, const struct backend_call *call, int rank,
                           int size);

#endif
