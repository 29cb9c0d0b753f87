/* backend - the interface to the libraries that execute collectives: self, MPI, NCCL.
 *
 * A plug-in is PREFIX/lib/drover/backend_NAME.so and exports one `const struct backend
 * drover_backend`. The loader checks `abi` before it reads anything else. Work is started, never
 * waited for, and executed in the order in which it was started. comm.c queues calls that cannot
 * be started yet, polls, and enforces deadlines. */
#ifndef DROVER_BACKEND_H
#define DROVER_BACKEND_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "collectives/bootstrap/bootstrap.h"
#include "collectives/comm/collective.h"
#include "collectives/drover.h"
#include "common/err.h"

#define BACKEND_ABI UINT32_C(6)

/* A call. comm.c has checked it: a known type, op and root, sizes that do not overflow, count > 0.
 */
struct backend_call {
    enum collective coll;
    const void *in;
    void *out;
    size_t count; /* elements, as drover.h counts them */
    enum drover_type type;
    enum drover_op op;
    double factor;                          /* this rank's, for DROVER_MULSUM */
    int root;                               /* or the peer of a send or receive */
    const struct drover_parts *send, *recv; /* for all_to_all_v, instead of count */
    bool grouped;                           /* starts together with the call before it */
};

/* For `stream`: a stream that the backend creates, on which nothing else is ordered. */
#define BACKEND_OWN_STREAM ((void *)-1)

/* Kinds of memory. Without BACKEND_REGISTERS they are all alike. */
enum backend_memory {
    BACKEND_SCRATCH,    /* a few bytes, for a short time */
    BACKEND_BUFFERS,    /* buffers as a program allocates them, … */
    BACKEND_REGISTERED, /* … registered with the network until they are freed, … */
    BACKEND_SYMMETRIC,  /* … or registered symmetrically: collective. -ENOTSUP: library too old */
};

/* Borrowed during open(). */
struct backend_opts {
    int rank, size, local_rank;
    int device; /* this and the next two: as in drover_comm_opts */
    void *stream;
    const char *lib_path;
    int64_t open_ms; /* > 0 */
    const struct bootstrap_ops *bootstrap;
};

/* A new communicator of some ranks of another one, the parent. */
struct backend_subgroup {
    const int *members; /* numbers in the parent, in the new order */
    int size, rank;     /* in the new communicator; 0 and -1: this rank is not a member */
    int color, key;     /* as in drover_comm_split() */
    const int
        *without;  /* NULL: a split, called by every rank. Else a shrink: the ranks left out, … */
    int n_without; /* … which may have ended */
    int64_t open_ms; /* > 0 */
};

enum backend_caps {
    BACKEND_DEVICE_MEMORY = 1,  /* buffers are on a device; copy_in() and copy_out() access them */
    BACKEND_NO_INPLACE_A2A = 2, /* all_to_all does not work in place */
    BACKEND_FP8 = 4,            /* supports the 8-bit floats */
    /* Calls that not every backend has; see native_cap in collective.h. */
    BACKEND_HAS_ALL_TO_ALL = 8,
    BACKEND_HAS_GATHER = 16,
    BACKEND_HAS_SCATTER = 32,
    BACKEND_REGISTERS = 64, /* distinguishes the kinds of enum backend_memory */
};

struct backend_device {
    int index;
    int pci_domain, pci_bus, pci_device;
    uint64_t free_bytes; /* free device memory; 0: not known */
    bool integrated;     /* the memory is the host's; free_bytes is then all of it */
    char name[128];
};

/* A comparison of n elements of the backend's memory with a pattern of host memory that repeats. */
struct backend_compare {
    const void *got, *pattern;
    size_t element, period, n; /* element in bytes; period in elements */
    int64_t ulps;              /* tolerance, as in ulps_differ() */
};
struct backend_difference {
    uint64_t count, first; /* number of elements that differ; position of the first one */
};

struct backend_comm;

struct backend {
    uint32_t abi;
    const char *name;
    /* Opens the communicator of all ranks. Collective. -ETIMEDOUT  not complete after open_ms */
    int (*open)(struct backend_comm **out, const struct backend_opts *o, struct err *e);
    /* Called after abort(), or when no call is pending. */
    void (*close)(struct backend_comm *c);
    /* Creates a subgroup. No call is pending; before a shrink there may have been an abort(). Sets
     * *out to NULL at ranks that are not members; those call it for a split only. NULL: not
     * supported. */
    int (*subgroup)(struct backend_comm **out, struct backend_comm *c,
                    const struct backend_subgroup *p, struct err *e);
    /* Starts n calls together. -EAGAIN: try again later. -ENOTSUP, -EOVERFLOW: none was started. */
    int (*start)(struct backend_comm *c, const struct backend_call *calls, size_t n, struct err *e);
    /* Returns 0 if all started calls are complete, -EINPROGRESS, or the error of a call. */
    int (*poll)(struct backend_comm *c, struct err *e);
    /* Never blocks. Only close(), and subgroup() for a shrink, may be called afterwards. */
    int (*abort)(struct backend_comm *c);
    /* Memory for buffers of collectives; aligned to at least 64 bytes, not zeroed. */
    int (*mem_alloc)(struct backend_comm *c, size_t bytes, enum backend_memory use, void **out,
                     struct err *e);
    void (*mem_free)(struct backend_comm *c, void *p);
    /* Copies between such memory and host memory; complete on return. */
    int (*copy_in)(struct backend_comm *c, void *to, const void *host, size_t bytes, struct err *e);
    int (*copy_out)(struct backend_comm *c, void *host, const void *from, size_t bytes,
                    struct err *e);
    /* Fills `bytes` of such memory with repetitions of `period` bytes of host memory; complete on
     * return. NULL: use copy_in(). */
    int (*fill)(struct backend_comm *c, void *to, const void *pattern, size_t period, size_t bytes,
                struct err *e);
    /* Compares on the device. NULL, or -ENOTSUP: use copy_out(). */
    int (*compare)(struct backend_comm *c, const struct backend_compare *k,
                   struct backend_difference *out, struct err *e);
    /* Calls that are started between record(true) and record(false) are recorded in a graph instead
     * of executed; each replay() then starts all of them at once. At record(true) no call is
     * pending; before record(false), poll() tells whether all calls are recorded. NULL: no CUDA
     * graphs. */
    int (*record)(struct backend_comm *c, bool begin, struct err *e);
    int (*replay)(struct backend_comm *c, struct err *e);
    /* Returns bits of enum backend_caps. */
    unsigned (*caps)(const struct backend_comm *c);
    /* Returns "Open MPI 4.1.4", "NCCL 2.28.9 (headers 2.28.9)"; borrowed. */
    const char *(*version)(const struct backend_comm *c);
    /* Describes the GPU of this rank. NULL: the backend works on the CPU. */
    void (*device)(const struct backend_comm *c, struct backend_device *out);
};

/* Finds a backend by name and keeps it loaded until the process exits. Searches $DROVER_PLUGIN_DIR,
 * then lib/drover of the tree that this library or program belongs to.
 *   -ENOENT   no such plug-in; the text names the folders
 *   -ELIBBAD  it cannot be loaded (a library that it needs is missing), or has another ABI */
int backend_load(const struct backend **out, const char *name, struct err *e);

/* The built-in backend for one rank. */
extern const struct backend backend_self;

/* Size of an element in bytes. */
static inline size_t backend_type_bytes(enum drover_type t)
{
    static const unsigned char bytes[DROVER_TYPES] = {
        [DROVER_INT8] = 1,   [DROVER_UINT8] = 1,    [DROVER_INT32] = 4,  [DROVER_UINT32] = 4,
        [DROVER_INT64] = 8,  [DROVER_UINT64] = 8,   [DROVER_HALF] = 2,   [DROVER_FLOAT] = 4,
        [DROVER_DOUBLE] = 8, [DROVER_BFLOAT16] = 2, [DROVER_F8E4M3] = 1, [DROVER_F8E5M2] = 1,
    };
    assert((unsigned)t < DROVER_TYPES);
    return bytes[t];
}

/* nccl-tests' names of the types: "float", "bfloat16". */
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
