#include "collectives/comm/collective.h"

#include <errno.h>
#include <string.h>

#include "collectives/comm/backend.h"
#include "launcher/client/collective_trace.h"

/* These return the factors of nccl-tests' doc/PERFORMANCE.md: the number of bytes on the slowest
 * link of a ring, per byte of the size that the table shows. */
static double busbw_once(int ranks)
{
    return 1;
}

static double busbw_others(int ranks)
{
    return (double)(ranks - 1) / ranks;
}

static double busbw_others_twice(int ranks)
{
    return 2.0 * (ranks - 1) / ranks;
}

/* Unless a row says otherwise, every rank has both buffers, of `count` elements, and every backend
 * has the call. */
const struct collective_row collective_rows[COLLECTIVES] = {
    [COLLECTIVE_ALL_REDUCE] = {.name = "all_reduce",
                               .source = COLLECTIVE_FROM_ALL,
                               .busbw_factor = busbw_others_twice},
    [COLLECTIVE_BROADCAST] = {.name = "broadcast",
                              .in_at_root = true,
                              .source = COLLECTIVE_FROM_ROOT,
                              .busbw_factor = busbw_once},
    [COLLECTIVE_REDUCE] = {.name = "reduce",
                           .out_at_root = true,
                           .source = COLLECTIVE_FROM_ALL,
                           .busbw_factor = busbw_once},
    [COLLECTIVE_ALL_GATHER] = {.name = "all_gather",
                               .out = COLLECTIVE_PARTS,
                               .source = COLLECTIVE_FROM_EACH,
                               .busbw_factor = busbw_others},
    [COLLECTIVE_REDUCE_SCATTER] = {.name = "reduce_scatter",
                                   .in = COLLECTIVE_PARTS,
                                   .source = COLLECTIVE_FROM_ALL,
                                   .busbw_factor = busbw_others},
    [COLLECTIVE_ALL_TO_ALL] = {.name = "alltoall",
                               .alias = "all_to_all",
                               .in = COLLECTIVE_PARTS,
                               .out = COLLECTIVE_PARTS,
                               .source = COLLECTIVE_FROM_EACH,
                               .in_place_refusal = BACKEND_NO_INPLACE_A2A,
                               .native_cap = BACKEND_HAS_ALL_TO_ALL,
                               .busbw_factor = busbw_others},
    [COLLECTIVE_GATHER] = {.name = "gather",
                           .out = COLLECTIVE_PARTS,
                           .out_at_root = true,
                           .source = COLLECTIVE_FROM_EACH,
                           .native_cap = BACKEND_HAS_GATHER,
                           .busbw_factor = busbw_others},
    [COLLECTIVE_SCATTER] = {.name = "scatter",
                            .in = COLLECTIVE_PARTS,
                            .in_at_root = true,
                            .source = COLLECTIVE_FROM_ROOT,
                            .native_cap = BACKEND_HAS_SCATTER,
                            .busbw_factor = busbw_others},
    [COLLECTIVE_ALL_TO_ALL_V] = {.name = "alltoallv",
                                 .alias = "all_to_all_v",
                                 .in = COLLECTIVE_VARYING,
                                 .out = COLLECTIVE_VARYING,
                                 .source = COLLECTIVE_FROM_EACH,
                                 .native_cap = COLLECTIVE_ALWAYS_P2P,
                                 .busbw_factor = busbw_others},
    [COLLECTIVE_SENDRECV] = {.name = "sendrecv",
                             .source = COLLECTIVE_FROM_PREVIOUS,
                             .native_cap = COLLECTIVE_ALWAYS_P2P,
                             .busbw_factor = busbw_once},
    [COLLECTIVE_BARRIER] = {.name = "barrier",
                            .in = COLLECTIVE_NO_BUFFER,
                            .out = COLLECTIVE_NO_BUFFER},
    [COLLECTIVE_SEND] = {.name = "send", .out = COLLECTIVE_NO_BUFFER, .to_peer = true},
    [COLLECTIVE_RECV] = {.name = "recv", .in = COLLECTIVE_NO_BUFFER, .to_peer = true},
};

_Static_assert((int)COLLECTIVES <= (int)COLLECTIVE_TRACE_COLLS, "the trace has room for all names");

int collective_find(const char *name)
{
    for (int c = 0; c < COLLECTIVES; c++) {
        const struct collective_row *row = &collective_rows[c];
        if (strcmp(name, row->name) == 0 || (row->alias && strcmp(name, row->alias) == 0))
            return c;
    }
    return -EINVAL;
}
