/* p2p_fallback - replaces a collective by sends and receives, for backends that have no call for
 * it. */
#pragma once

#include "collectives/comm/backend.h"

/* Writes the sends and receives of this rank to `out`, which has room for 2 * size calls. Returns
 * their number. They must all start together. The row of the collective determines them. Parts of 0
 * elements are left out, and so is a rank's own part if it is already in its place. Not for
 * reductions. */
size_t p2p_fallback_expand(struct backend_call *out, const struct backend_call *call, int rank,
                           int size);
