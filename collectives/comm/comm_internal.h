/* comm_internal - the state of a communicator, shared by the files of comm. */
#ifndef DROVER_COMM_INTERNAL_H
#define DROVER_COMM_INTERNAL_H

#include "collectives/comm/comm.h"
#include "launcher/client/collective_trace.h"

struct drover_comm {
    struct drover *d;
    struct err *err; /* d's */
    const struct backend *backend;
    struct backend_comm *inner;
    int rank, size;
    unsigned caps, native_mask; /* bits of enum backend_caps; of collectives that the backend has */
    double factor;
    bool oversubscribed;        /* this node has more ranks than cores */
    struct backend_call *queue; /* calls head … len - 1 are not started yet */
    size_t head, len, cap;
    int depth;    /* of open groups */
    size_t group; /* position of the open group in the queue */
    struct {
        enum collective coll;
        size_t count;
        enum drover_type type;
    } last;                              /* call, for messages */
    uint64_t calls;                      /* number of calls so far */
    struct collective_trace_comm *trace; /* read by the launcher; may be NULL */
    bool unusable;                       /* failed or aborted: only close and shrink are allowed */
    int64_t open_ms;
    unsigned subgroups; /* number of subgroups created so far */
    char name[COLLECTIVE_TRACE_NAME_BYTES];
};

/* Makes a communicator of an opened backend object. `name` is the same on all of its ranks. */
struct drover_comm *comm_new(struct drover *d, const struct backend *b, struct backend_comm *inner,
                             int rank, int size, const char *name);

/* Checks that no group is open and the communicator is usable. `what` names the caller. */
int comm_check_idle(const struct drover_comm *c, const char *what);

/* Makes the communicator unusable: after any error, ranks may disagree on the next call. Returns
 * rc. */
int comm_fail(struct drover_comm *c, int rc);

#endif
