/* comm_internal - the state of a communicator, shared by the files of comm. */
#pragma once

#include "collectives/comm/comm.h"
#include "launcher/client/collective_trace.h"

struct drover_comm {
    struct drover *d;
    struct err *err; /* borrowed from d */
    const struct backend *backend;
    struct backend_comm *inner;
    int rank, size;
    unsigned caps, native_mask; /* bits of enum backend_caps; bits, by enum collective, of the calls
                                   that the backend has */
    double factor;
    bool oversubscribed;        /* this node has more ranks than cores */
    struct backend_call *queue; /* calls head … len - 1 have not been started */
    size_t head, len, cap;
    int depth;    /* number of open groups */
    size_t group; /* position of the outermost open group in the queue */
    struct {
        enum collective coll;
        size_t count;
        enum drover_type type;
    } last;                              /* the last call, for messages */
    uint64_t calls;                      /* number of calls so far */
    struct collective_trace_comm *trace; /* the launcher reads it; may be NULL */
    bool unusable; /* it has failed or was aborted, and only close and shrink are allowed */
    int64_t open_ms;
    unsigned subgroups; /* number of subgroups created so far */
    char name[COLLECTIVE_TRACE_NAME_BYTES];
};

/* Returns a communicator for an opened backend object, which it then owns. `name` is the same on
 * all its ranks. */
struct drover_comm *comm_new(struct drover *d, const struct backend *b, struct backend_comm *inner,
                             int rank, int size, const char *name);

/* Checks that the communicator is usable and that no group is open. `what` names the operation in
 * the message. */
int comm_check_idle(const struct drover_comm *c, const char *what);

/* Aborts the communicator and makes it unusable, since after an error the ranks may disagree on the
 * next call. Returns rc. */
int comm_fail(struct drover_comm *c, int rc);

/* ---- comm_trace.c -------------------------------------------------------------------------- */

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
