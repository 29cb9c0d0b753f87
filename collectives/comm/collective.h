/* collective - the properties of each collective, in a table with one row per collective.
 *
 * All code whose behaviour depends on the collective (argument checks, the p2p fallback, the
 * collective trace, `drover bench` and its verification) reads the row. A new collective needs an
 * enumerator, a row, and a function in drover.h. If it can be made of sends and receives, no
 * backend must change. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Plug-ins are compiled with these numbers, so a new collective is added at the end. */
enum collective {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_REDUCE,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_ALL_TO_ALL,
    COLLECTIVE_GATHER,
    COLLECTIVE_SCATTER,
    COLLECTIVE_ALL_TO_ALL_V,
    COLLECTIVE_SENDRECV, /* to the next rank, from the previous one */
    COLLECTIVE_BARRIER,
    COLLECTIVE_SEND,
    COLLECTIVE_RECV,
    COLLECTIVES
};

/* Length of a rank's input or output. */
enum collective_extent {
    COLLECTIVE_WHOLE,   /* count elements */
    COLLECTIVE_PARTS,   /* count elements per rank of the communicator, in the order of the ranks */
    COLLECTIVE_VARYING, /* a number of elements per rank that struct drover_parts gives */
    COLLECTIVE_NO_BUFFER
};

/* The source of the blocks of an output. With COLLECTIVE_FROM_EACH an output has one block per
 * rank, otherwise it is one block. */
enum collective_source {
    COLLECTIVE_FROM_NONE,     /* no output, or the rank does not know the source (a receive) */
    COLLECTIVE_FROM_ALL,      /* the reduction of all inputs */
    COLLECTIVE_FROM_ROOT,     /* the root's input */
    COLLECTIVE_FROM_EACH,     /* block r is from the input of rank r */
    COLLECTIVE_FROM_PREVIOUS, /* the input of the previous rank in a ring */
};

/* The row is one cache line, since every call reads it. */
struct collective_row {
    _Alignas(64) const char *name; /* nccl-tests' name, whose program is NAME_perf */
    const char *alias; /* the name in drover.h, drover_ALIAS(); NULL: the same as `name` */
    enum collective_extent in, out;
    bool in_at_root, out_at_root; /* only the root has that buffer */
    unsigned
        in_place_refusal; /* a backend with this bit of enum backend_caps has no call in place */
    /* The bit of enum backend_caps that a backend sets if it has the call; 0: every backend has the
     * call. If the bit is missing, comm replaces the call by sends and receives, as `source` says.
     */
    unsigned native_cap;
    enum collective_source source;
    bool to_peer;                      /* a send or receive, where `root` is the other rank */
    double (*busbw_factor)(int ranks); /* busbw / algbw; NULL: `drover bench` does not measure it */
};

/* A value of native_cap that no backend has. */
#define COLLECTIVE_ALWAYS_P2P (1u << 31)

extern const struct collective_row collective_rows[COLLECTIVES];

static inline const struct collective_row *collective_row(enum collective c)
{
    return &collective_rows[c];
}

static inline const char *collective_name(enum collective c)
{
    return collective_rows[c].name;
}

/* Returns true if the collective is a reduction; other collectives only move data. */
static inline bool collective_reduces(enum collective c)
{
    return collective_rows[c].source == COLLECTIVE_FROM_ALL;
}

/* Returns true if input and output may be one buffer, unless the backend refuses that. */
static inline bool collective_in_place(enum collective c)
{
    return collective_rows[c].source != COLLECTIVE_FROM_NONE &&
           collective_rows[c].native_cap != COLLECTIVE_ALWAYS_P2P;
}

/* Returns true if the collective has a root, which alone has an input or an output. */
static inline bool collective_has_root(enum collective c)
{
    return collective_rows[c].in_at_root || collective_rows[c].out_at_root;
}

/* Returns true if the input or the output consists of one part of equal size per rank. */
static inline bool collective_has_parts(enum collective c)
{
    return collective_rows[c].in == COLLECTIVE_PARTS || collective_rows[c].out == COLLECTIVE_PARTS;
}

/* collective_reads() returns true if the rank has an input in a call with this root,
 * collective_writes() if it has an output. */
static inline bool collective_reads(enum collective c, int rank, int root)
{
    const struct collective_row *row = &collective_rows[c];
    return row->in != COLLECTIVE_NO_BUFFER && (!row->in_at_root || rank == root);
}

static inline bool collective_writes(enum collective c, int rank, int root)
{
    const struct collective_row *row = &collective_rows[c];
    return row->out != COLLECTIVE_NO_BUFFER && (!row->out_at_root || rank == root);
}

/* Returns true if the collective uses `count`. A barrier moves no elements, and a varying
 * collective has counts per rank. */
static inline bool collective_counts(enum collective c)
{
    const struct collective_row *row = &collective_rows[c];
    return row->in == COLLECTIVE_WHOLE || row->in == COLLECTIVE_PARTS ||
           row->out == COLLECTIVE_WHOLE;
}

/* Returns the rank whose input is in block `block` of the output of `rank`. Not for reductions. */
static inline int collective_source_rank(enum collective c, int rank, int block, int root,
                                         int ranks)
{
    enum collective_source source = collective_rows[c].source;
    return source == COLLECTIVE_FROM_ROOT       ? root
           : source == COLLECTIVE_FROM_PREVIOUS ? (rank - 1 + ranks) % ranks
                                                : block;
}

/* Returns the collective with this name or alias, or -EINVAL if there is none. */
int collective_find(const char *name);
