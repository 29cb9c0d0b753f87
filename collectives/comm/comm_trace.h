/* comm_trace - the collective trace of a communicator, on top of collective_trace.h. */
#ifndef DROVER_COMM_TRACE_H
#define DROVER_COMM_TRACE_H

#include "collectives/comm/backend.h"
#include "launcher/client/collective_trace.h"

/* Opens a trace with the names of collectives, types and operations. Returns the result of
 * collective_trace_open(). */
struct collective_trace_comm *comm_trace_open(const char *name, int rank, int size);

/* Traces a call that is about to start. `trace` may be NULL. */
static inline void comm_trace_call(struct collective_trace_comm *trace,
                                   const struct backend_call *call)
{
    bool all = !collective_row(call->coll)->to_peer;
    collective_trace_call(trace, all, call->coll, call->type, call->op, call->root, call->count);
}

#endif
