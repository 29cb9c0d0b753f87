/* backend - what carries collectives: a table that "self", and the plug-ins "mpi" and "nccl", give.
 *
 * A plug-in is PREFIX/lib/drover/backend_NAME.so and exports one `const struct backend
 * drover_backend`. The loader looks at `abi` before anything else. Work is started, never waited
 * for, and is done in the order in which it was started; comm.c keeps what cannot be started yet,
 * polls, and keeps deadlines. */
#ifndef DROVER_BACKEND_H
#define DROVER_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "collectives/bootstrap/bootstrap.h"
#include "collectives/comm/collective.h"
#include "collectives/drover.h"
#include "common/err.h"

#define BACKEND_ABI UINT32_C(5)

/* Checked by comm.c: a known type, op and root, sizes that do not overflow, count > 0. */
struct backend_call {
    enum collective coll;
    const void *in;
    void *out;
    size_t count; /* as drover.h counts */
    enum drover_type type;
    enum drover_op op;
    double factor;                          /* of DROVER_MULSUM: this rank's */
    int root;                               /* or the other rank of a send or receive */
    const struct drover_parts *send, *recv; /* of an all_to_all_v, in place of count */
    bool joined;                            /* begins together with the call before it */
};

/* For `stream`: one that the backend makes, and that nothing else is ordered on. */
#define BACKEND_OWN_STREAM ((void *)-1)

/* What memory is for. Where the backend has no such difference all are alike. */
enum backend_memory {
    BACKEND_SCRATCH,    /* a few bytes, for a moment */
    BACKEND_BUFFERS,    /* what a program has for its data, … */
    BACKEND_REGISTERED, /* … known to the network until it is freed, … */
    BACKEND_SYMMETRIC, /* … or all ranks' together; collective. -ENOTSUP: the library is too old */
};

/* Borrowed during open(). */
struct backend_opts {
    int rank, size, local_rank;
    int device;           /* as drover_comm_opts has them */
    void *stream;         /* … */
    const char *lib_path; /* … */
    int64_t open_ms;      /* > 0 */
    const struct bootstrap_ops *exchange;
};

/* A communicator among some of another one's ranks. */
struct backend_subgroup {
    const int *members; /* their numbers in the other one, in their new order */
    int size, rank;     /* of the new one; 0, -1 where this rank is not in it */
    int color, key;     /* as drover_comm_split() has them */
    const int *without; /* NULL: a split, every rank is here. Else a shrink: those left out … */
    int n_without;      /* … may be gone */
    int64_t open_ms;    /* > 0 */
};

enum backend_caps {
    BACKEND_DEVICE_MEMORY = 1,  /* buffers are the device's; copy_in() and copy_out() reach them */
    BACKEND_NO_INPLACE_A2A = 2, /* all_to_all with in == out is refused */
    BACKEND_FP8 = 4,            /* the 8-bit floats */
    /* Where a bit is missing, comm.c makes sends and receives of the collective. */
    BACKEND_HAS_ALL_TO_ALL = 8,
    BACKEND_HAS_GATHER = 16,
    BACKEND_HAS_SCATTER = 32,
    BACKEND_REGISTERS = 64, /* enum backend_memory makes a difference */
};

struct backend_device {
    int index;
    int pci_domain, pci_bus, pci_device;
    uint64_t free_bytes; /* of its memory; 0: not known */
    char name[128];
};

struct backend_comm;

struct backend {
    uint32_t abi;
    const char *name;
    int (*open)(struct backend_comm **out, const struct backend_opts *o, struct err *e);
    /* After abort(), or when nothing is under way. */
    void (*close)(struct backend_comm *c);
    /* Nothing is under way; before a shrink there may have been an abort(). *out is NULL where this
     * rank is not in the new one; then it was called for a split only. NULL: there is none. */
    int (*part)(struct backend_comm **out, struct backend_comm *c, const struct backend_subgroup *p,
                struct err *e);
    /* Starts n calls, all at once. -EAGAIN: not yet. -ENOTSUP, -EOVERFLOW: none was started. */
    int (*start)(struct backend_comm *c, const struct backend_call *calls, size_t n, struct err *e);
    /* 0: all that was started is done; -EINPROGRESS; or what went wrong. */
    int (*poll)(struct backend_comm *c, struct err *e);
    /* Never blocks. Only close(), and part() of a shrink, may follow. */
    int (*abort)(struct backend_comm *c);
    /* Memory that collectives reach; at least 64-byte aligned, not zeroed. */
    int (*mem_alloc)(struct backend_comm *c, size_t bytes, enum backend_memory use, void **out,
                     struct err *e);
    void (*mem_free)(struct backend_comm *c, void *p);
    /* Between such memory and the host's; complete on return. */
    int (*copy_in)(struct backend_comm *c, void *to, const void *host, size_t bytes, struct err *e);
    int (*copy_out)(struct backend_comm *c, void *host, const void *from, size_t bytes,
                    struct err *e);
    /* What is started from record(true) to record(false) is kept, not done; then replay() starts
     * all of it at once, as often as it is called. poll() says before record(false) whether all is
     * kept; at record(true) nothing is under way. NULL: the backend has no CUDA graphs. */
    int (*record)(struct backend_comm *c, bool begin, struct err *e);
    int (*replay)(struct backend_comm *c, struct err *e);
    unsigned (*caps)(const struct backend_comm *c);
    /* "Open MPI 4.1.4", "NCCL 2.28.9 (headers 2.28.9)"; borrowed. */
    const char *(*version)(const struct backend_comm *c);
    /* The GPU that this rank computes on. NULL: the host's processors. */
    void (*device)(const struct backend_comm *c, struct backend_device *out);
};

/* Finds a backend by name and keeps it loaded for the life of the process. Looks in
 * $DROVER_PLUGIN_DIR, then beside this library or program (lib/drover of the same tree).
 *   -ENOENT   there is no such plug-in; the hint says where it would be
 *   -ELIBBAD  it cannot be loaded (a library below it is missing) or has another abi */
int backend_load(const struct backend **out, const char *name, struct err *e);

/* The one that needs nothing: for a job of one rank. */
extern const struct backend backend_self;

/* Bytes of an element. */
static inline size_t backend_type_bytes(enum drover_type t)
{
    static const unsigned char bytes[DROVER_TYPES] = {
        [DROVER_INT8] = 1,   [DROVER_UINT8] = 1,    [DROVER_INT32] = 4,  [DROVER_UINT32] = 4,
        [DROVER_INT64] = 8,  [DROVER_UINT64] = 8,   [DROVER_HALF] = 2,   [DROVER_FLOAT] = 4,
        [DROVER_DOUBLE] = 8, [DROVER_BFLOAT16] = 2, [DROVER_F8E4M3] = 1, [DROVER_F8E5M2] = 1,
    };
    return bytes[t];
}

/* "float", "bfloat16", as nccl-tests calls them. */
static inline const char *backend_type_name(enum drover_type t)
{
    static const char *const names[DROVER_TYPES] = {"int8",   "uint8",    "int32",  "uint32",
                                                    "int64",  "uint64",   "half",   "float",
                                                    "double", "bfloat16", "f8e4m3", "f8e5m2"};
    return names[t];
}

static inline const char *backend_op_name(enum drover_op op)
{
    static const char *const names[DROVER_OPS] = {"sum", "prod", "min", "max", "avg", "mulsum"};
    return names[op];
}

#endif
