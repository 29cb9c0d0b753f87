/* cmd_bench_ring - `drover bench ring` on its ranks: each rank connects to the next one of the ring
 * and to the previous one. */
#pragma once

#include "collectives/bench/cmd/cmd_bench_opts.h"
#include "launcher/client/rank_identity.h"

/* Tries the links of this rank, all ranks to their next one at the same time, then to their
 * previous one, and prints those of all ranks on rank 0. Returns 1 on rank 0 if a link does not
 * work, else 0, or a negative errno. */
int cmd_bench_ring(const struct rank_identity *me, const struct cmd_bench_opts *o, struct err *e);
