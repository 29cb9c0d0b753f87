/* backend - the interface to the libraries that execute collectives: self, MPI, NCCL.
 *
 * A plug-in is PREFIX/lib/drover/backend_NAME.so and exports one `const struct backend
 * drover_backend`. The loader checks `abi` before it reads anything else. A backend starts calls
 * but never waits for them. It executes them in the order in which they were started. comm.c queues
 * calls that cannot be started yet, polls, and enforces deadlines. */
#pragma once

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "collectives/bootstrap/bootstrap.h"
#include "collectives/comm/collective.h"
#include "collectives/drover.h"
#include "common/err.h"

#define BACKEND_ABI UINT32_C(6)

/* A call. comm.c has checked that type, op and root are valid, that sizes do not overflow, and that
 * count > 0 if the collective uses it. */
struct backend_call {
    enum collective coll;
    const void *in;
    void *out;
    size_t count; /* number of elements, as drover.h counts them */
    enum drover_type type;
    enum drover_op op;
    double factor;                          /* this rank's premultiplier, for DROVER_MULSUM */
    int root;                               /* the root, or the peer of a send or receive */
    const struct drover_parts *send, *recv; /* for all_to_all_v, which does not use count */
    bool grouped;                           /* must start together with the call before it */
};

/* A value of backend_opts.stream: the backend creates a stream, and no other work is on it. */
#define BACKEND_OWN_STREAM ((void *)-1)

/* Kinds of memory. If a backend does not have BACKEND_REGISTERS, it treats all kinds alike. */
enum backend_memory {
    BACKEND_SCRATCH,    /* a few bytes, for a short time */
    BACKEND_BUFFERS,    /* buffers, allocated as a program would do … */
    BACKEND_REGISTERED, /* … and registered with the network until they are freed, … */
    BACKEND_SYMMETRIC, /* … or registered symmetrically (a collective call); -ENOTSUP: the library
                          is too old */
};

/* The arguments of open(), borrowed during the call. */
struct backend_opts {
    int rank, size, local_rank;
    int device; /* device, stream and lib_path are those of drover_comm_opts */
    void *stream;
    const char *lib_path;
    int64_t open_ms; /* > 0 */
    const struct bootstrap_ops *bootstrap;
};

/* The arguments of subgroup(): the new communicator has some of the ranks of another one, the
 * parent. */
struct backend_subgroup {
    const int *members; /* the members' ranks in the parent, in the order of their new ranks */
    int size, rank;     /* of the new communicator; 0 and -1: this rank is not a member */
    int color, key;     /* as in drover_comm_split() */
    const int *without; /* NULL: a split, which every rank calls; otherwise a shrink, without these
                           ranks, … */
    int n_without;      /* … which may have exited */
    int64_t open_ms;    /* > 0 */
};

enum backend_caps {
    /* buffers are on a device, and only copy_in() and copy_out() access them */
    BACKEND_DEVICE_MEMORY = 1,
    BACKEND_NO_INPLACE_A2A = 2, /* all_to_all does not work in place */
    BACKEND_FP8 = 4,            /* supports the 8-bit floats */
    /* Collectives that not every backend has; see native_cap in collective.h. */
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
    /* Opens the communicator of all ranks. Collective.
     *   -ETIMEDOUT  not complete after open_ms */
    int (*open)(struct backend_comm **out, const struct backend_opts *o, struct err *e);
    /* Closes a communicator. Called after abort(), or when no call is pending. */
    void (*close)(struct backend_comm *c);
    /* Creates the communicator of a subgroup. Called when no call is pending; before a shrink,
     * abort() may have been called. Ranks that are not members only call it for a split; for them
     * it sets `*out` to NULL. */
    int (*subgroup)(struct backend_comm **out, struct backend_comm *c,
                    const struct backend_subgroup *p, struct err *e);
    /* Starts n calls together.
     *   -EAGAIN               no call was started; try again later
     *   -ENOTSUP, -EOVERFLOW  no call was started */
    int (*start)(struct backend_comm *c, const struct backend_call *calls, size_t n, struct err *e);
    /* Returns 0 if all started calls are complete, -EINPROGRESS if not, or the error of a call. */
    int (*poll)(struct backend_comm *c, struct err *e);
    /* Abandons all calls, without blocking. Afterwards only close() may be called, and subgroup()
     * for a shrink. */
    int (*abort)(struct backend_comm *c);
    /* Allocates memory for buffers of collectives, aligned to at least 64 bytes and not zeroed. */
    int (*mem_alloc)(struct backend_comm *c, size_t bytes, enum backend_memory use, void **out,
                     struct err *e);
    void (*mem_free)(struct backend_comm *c, void *p);
    /* Copy between such memory and host memory. The copy is complete on return. */
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
    /* Calls that are started between record(true) and record(false) are not executed but recorded
     * in a graph. Each replay() then starts all of them together. record(true) is called when no
     * call is pending; record(false) is called when poll() has reported that all calls are
     * recorded. NULL: the backend has no CUDA graphs. */
    int (*record)(struct backend_comm *c, bool begin, struct err *e);
    int (*replay)(struct backend_comm *c, struct err *e);
    /* Returns bits of enum backend_caps. */
    unsigned (*caps)(const struct backend_comm *c);
    /* Returns the library's name and version, borrowed: "Open MPI 4.1.4", "NCCL 2.28.9 (headers
     * 2.28.9)". */
    const char *(*version)(const struct backend_comm *c);
    /* Describes the GPU of this rank. NULL: the backend works on the CPU. */
    void (*device)(const struct backend_comm *c, struct backend_device *out);
};

/* Finds a backend by name and keeps it loaded until the process exits. Searches in
 * $DROVER_PLUGIN_DIR, then in lib/drover of the tree that this library or program belongs to.
 *   -ENOENT   there is no such plug-in; the message names the folders
 *   -ELIBBAD  the plug-in cannot be loaded (a library that it needs is missing), or has another ABI
 */
int backend_load(const struct backend **out, const char *name, struct err *e);

/* The built-in backend for one rank. */
extern const struct backend backend_self;

/* mem_alloc(), mem_free(), copy_in() and copy_out() of backends that work on the CPU. */
static inline int backend_host_alloc(struct backend_comm *c, size_t bytes, enum backend_memory use,
                                     void **out, struct err *e)
{
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes ? bytes : 1) != 0)
        return err_set(e, -ENOMEM, "no memory for a buffer of %zu bytes", bytes);
    *out = p;
    return 0;
}

static inline void backend_host_free(struct backend_comm *c, void *p)
{
    free(p);
}

static inline int backend_host_copy(struct backend_comm *c, void *to, const void *from,
                                    size_t bytes, struct err *e)
{
    memcpy(to, from, bytes);
    return 0;
}

/* Returns the size of an element in bytes. */
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

/* Returns nccl-tests' name of the type: "float", "bfloat16". */
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
