/* noting - a communicator's calls, as client/notes.h takes them. */
#ifndef DROVER_COMM_TRACE_H
#define DROVER_COMM_TRACE_H

#include "collectives/comm/backend.h"
#include "launcher/client/collective_trace.h"

/* As collective_trace_open(). */
struct collective_trace_comm *comm_trace_open(const char *name, int rank, int size);

static inline void comm_trace_call(struct collective_trace_comm *n, const struct backend_call *call)
{
    bool all = !collective_row(call->coll)->to_peer;
    collective_trace_call(n, all, call->coll, call->type, call->op, call->root, call->count);
}

#endif
