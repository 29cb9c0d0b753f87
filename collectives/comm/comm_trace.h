/* noting - a communicator's calls, as client/notes.h takes them. */
#ifndef DROVER_COMM_TRACE_H
#define DROVER_COMM_TRACE_H

#include "collectives/comm/backend.h"
#include "launcher/client/collective_trace.h"

/* As notes_open(). */
struct notes_comm *noting_open(const char *name, int rank, int size);

static inline void noting_call(struct notes_comm *n, const struct backend_call *call)
{
    bool all = call->coll != BACKEND_SEND && call->coll != BACKEND_RECV;
    notes_call(n, all, call->coll, call->type, call->op, call->root, call->count);
}

#endif
