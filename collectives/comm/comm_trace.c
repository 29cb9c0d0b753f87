/* comm_trace - the collective trace of a communicator, on top of collective_trace.h. */
#include <stdio.h>

#include "collectives/comm/comm_internal.h"

static uint8_t flags_of(enum collective c)
{
    const struct collective_row *row = collective_row(c);
    if (row->to_peer)
        return COLLECTIVE_TRACE_HAS_COUNT | COLLECTIVE_TRACE_TO_PEER;
    /* The counts of a varying collective differ between ranks. */
    bool has_count = collective_counts(c);
    return (uint8_t)((has_count ? COLLECTIVE_TRACE_HAS_COUNT : 0) |
                     (collective_reduces(c) ? COLLECTIVE_TRACE_HAS_OP : 0) |
                     (collective_has_root(c) ? COLLECTIVE_TRACE_HAS_ROOT : 0));
}

struct collective_trace_comm *comm_trace_open(const char *name, int rank, int size)
{
    struct collective_trace_words w = {0};
    for (int i = 0; i < COLLECTIVES; i++) {
        snprintf(w.colls[i].name, sizeof w.colls[i].name, "%s", collective_rows[i].name);
        w.colls[i].flags = flags_of((enum collective)i);
    }
    for (int i = 0; i < DROVER_TYPES; i++)
        snprintf(w.types[i], sizeof w.types[i], "%s", backend_type_name((enum drover_type)i));
    for (int i = 0; i < DROVER_OPS; i++)
        snprintf(w.ops[i], sizeof w.ops[i], "%s", backend_op_name((enum drover_op)i));
    return collective_trace_open(&w, name, rank, size);
}
