/* collective_trace - shared memory with the last collectives of a rank.
 *
 * The launcher can read it even if the rank hangs or is dead.
 *
 * DROVER_NOTES="/proc/PID/fd/N:I" names the launcher's memory and this rank's part of it. A rank
 * has a struct collective_trace_comm for each of up to COLLECTIVE_TRACE_COMMS communicators. Such a
 * struct has one writer and no lock: the `seq` of a call is 0 while the call is being written, and
 * is stored last. Times are those of clock_coarse_ms().
 *
 * A call that is about to start is stored in `begun`, which is in the same cache line as the
 * counters. The call gets its entry in the ring, and its time, only after its work has started.
 * Otherwise the entry's cache line and the clock would delay the message to the other ranks by 0.1
 * us. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    COLLECTIVE_TRACE_COMMS = 8,
    COLLECTIVE_TRACE_CALLS = 1024,
    COLLECTIVE_TRACE_NAME_BYTES = 48,
    COLLECTIVE_TRACE_COLLS = 16
};
enum { COLLECTIVE_TRACE_RANK_BYTES = 1 << 20 }; /* size of a rank's part: whole pages */

#define COLLECTIVE_TRACE_MAGIC UINT32_C(0x32746f6e)

enum collective_trace_flags {
    COLLECTIVE_TRACE_HAS_OP = 1,
    COLLECTIVE_TRACE_HAS_ROOT = 2,
    COLLECTIVE_TRACE_HAS_COUNT = 4,
    /* A send or receive, which not every rank makes; root is the peer */
    COLLECTIVE_TRACE_TO_PEER = 8,
};

/* The names of collectives, types and operations, so that the reader needs no table of them. */
struct collective_trace_words {
    struct {
        char name[15];
        uint8_t flags;
    } colls[COLLECTIVE_TRACE_COLLS];
    char types[16][16], ops[8][8];
};

struct collective_trace_call {
    _Alignas(64) _Atomic uint64_t seq; /* from 1 on */
    uint64_t nth;   /* number, from 1, of a call that every rank makes; 0: a send or receive */
    uint64_t count; /* elements */
    int64_t called_ms;
    uint8_t coll, type, op; /* indices in the words */
    int32_t root;
};
_Static_assert(sizeof(struct collective_trace_call) == 64, "a call is a cache line");

struct collective_trace_comm {
    _Atomic uint32_t owner; /* pid; 0: free */
    uint32_t magic;
    int32_t rank, size; /* this rank's number in the communicator, and the communicator's size */
    char name[COLLECTIVE_TRACE_NAME_BYTES];
    struct collective_trace_words words;
    _Alignas(64) _Atomic uint64_t calls, done; /* number of calls made, and completed */
    _Atomic uint64_t nth;
    /* If calls > done, the start of the first call that is not complete. Otherwise the time at
     * which the last call completed. */
    _Atomic int64_t since_ms;
    struct {
        _Atomic uint64_t seq; /* calls + 1 if a call is about to start; else another value */
        uint64_t nth, count;
        uint8_t coll, type, op;
        int32_t root;
    } begun;
    _Atomic int32_t failed; /* -errno */
    /* Total time in which a call was not complete, up to the last call that has completed. In
     * programs that link an older libdrover it stays 0. */
    _Atomic int64_t waited_ms;
    struct collective_trace_call ring[COLLECTIVE_TRACE_CALLS];
};
_Static_assert(COLLECTIVE_TRACE_COMMS * sizeof(struct collective_trace_comm) <=
                   COLLECTIVE_TRACE_RANK_BYTES,
               "a rank's part");

/* Opens the trace of a communicator. Returns NULL if no launcher reads it, or all entries are in
 * use. `rank` and `size` are those of the communicator; `name` is the same on all of its ranks. */
struct collective_trace_comm *collective_trace_open(const struct collective_trace_words *words,
                                                    const char *name, int rank, int size);
/* Frees the entry, unless the communicator has failed, since the launcher still reads the entry
 * then. NULL is allowed here and in the functions below. */
void collective_trace_close(struct collective_trace_comm *t);

/* Records a call that is about to start. `all` is true if every rank makes this call. coll, type
 * and op are indices in the words. Must be followed by collective_trace_pending() or _refused(). */
static inline void collective_trace_call(struct collective_trace_comm *t, bool all, unsigned coll,
                                         unsigned type, unsigned op, int root, uint64_t count)
{
    if (!t)
        return;
    atomic_store_explicit(&t->begun.seq, 0, memory_order_release);
    atomic_thread_fence(memory_order_release);
    t->begun.nth = all ? atomic_load_explicit(&t->nth, memory_order_relaxed) + 1 : 0;
    t->begun.count = count;
    t->begun.coll = (uint8_t)coll;
    t->begun.type = (uint8_t)type;
    t->begun.op = (uint8_t)op;
    t->begun.root = root;
    uint64_t calls = atomic_load_explicit(&t->calls, memory_order_relaxed);
    atomic_store_explicit(&t->begun.seq, calls + 1, memory_order_release);
}
/* Records that the call has started. */
void collective_trace_pending(struct collective_trace_comm *t);
/* Records that the call was rejected and has no effect. */
void collective_trace_refused(struct collective_trace_comm *t);
/* Records that all calls so far are complete. */
void collective_trace_done(struct collective_trace_comm *t, int64_t now_ms);
/* Records that the communicator has failed. Calls that are not complete stay incomplete. `error` is
 * -errno. */
void collective_trace_failed(struct collective_trace_comm *t, int error);
