#include "collectives/comm/comm_trace.h"

#include <stdio.h>

static uint8_t flags_of(enum backend_coll c)
{
    switch (c) {
    case BACKEND_ALL_REDUCE:
    case BACKEND_REDUCE_SCATTER:
        return COLLECTIVE_TRACE_HAS_COUNT | COLLECTIVE_TRACE_HAS_OP;
    case BACKEND_REDUCE:
        return COLLECTIVE_TRACE_HAS_COUNT | COLLECTIVE_TRACE_HAS_OP | COLLECTIVE_TRACE_HAS_ROOT;
    case BACKEND_BROADCAST:
    case BACKEND_GATHER:
    case BACKEND_SCATTER:
        return COLLECTIVE_TRACE_HAS_COUNT | COLLECTIVE_TRACE_HAS_ROOT;
    case BACKEND_SEND:
    case BACKEND_RECV:
        return COLLECTIVE_TRACE_HAS_COUNT | COLLECTIVE_TRACE_TO_PEER;
    case BACKEND_BARRIER:
    case BACKEND_ALL_TO_ALL_V: /* its counts differ between ranks */
        return 0;
    default:
        return COLLECTIVE_TRACE_HAS_COUNT;
    }
}

struct collective_trace_comm *comm_trace_open(const char *name, int rank, int size)
{
    struct collective_trace_words w = {0};
    for (int i = 0; i < BACKEND_COLLS; i++) {
        snprintf(w.colls[i].name, sizeof w.colls[i].name, "%s",
                 backend_coll_name((enum backend_coll)i));
        w.colls[i].flags = flags_of((enum backend_coll)i);
    }
    for (int i = 0; i < DROVER_TYPES; i++)
        snprintf(w.types[i], sizeof w.types[i], "%s", backend_type_name((enum drover_type)i));
    for (int i = 0; i < DROVER_OPS; i++)
        snprintf(w.ops[i], sizeof w.ops[i], "%s", backend_op_name((enum drover_op)i));
    return collective_trace_open(&w, name, rank, size);
}
