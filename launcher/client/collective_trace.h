/* notes - what a rank's communicators are at, noted where the launcher can read it, also when the
 * rank is stuck or dead.
 *
 * DROVER_NOTES="/proc/PID/fd/N:I" names the launcher's memory and this rank's part of it. A rank
 * has a notes_comm for each of COLLECTIVE_TRACE_COMMS communicators. One writer each, no lock; a
 * call's `seq` is 0 while it is being written, and is stored last. Times are clock_coarse_ms().
 *
 * A call that is being begun stands beside the numbers, in the one line of memory that every call
 * has in use; its place in the ring, and its time, it gets when the work is under way. That line
 * and the clock would keep the message to the other ranks waiting for 0.1 us. */
#ifndef DROVER_COLLECTIVE_TRACE_H
#define DROVER_COLLECTIVE_TRACE_H

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
enum { COLLECTIVE_TRACE_RANK_BYTES = 1 << 20 }; /* from one rank's part to the next: whole pages */

#define COLLECTIVE_TRACE_MAGIC UINT32_C(0x32746f6e)

enum collective_trace_flags {
    COLLECTIVE_TRACE_HAS_OP = 1,
    COLLECTIVE_TRACE_HAS_ROOT = 2,
    COLLECTIVE_TRACE_HAS_COUNT = 4,
    COLLECTIVE_TRACE_TO_PEER =
        8, /* a send or receive: not every rank makes it; root is the other one */
};

/* So that the reader needs no table of its own. */
struct collective_trace_words {
    struct {
        char name[15];
        uint8_t flags;
    } colls[COLLECTIVE_TRACE_COLLS];
    char types[16][16], ops[8][8];
};

struct collective_trace_call {
    _Alignas(64) _Atomic uint64_t seq; /* from 1 on */
    uint64_t nth;                      /* of those that every rank makes; 0: a send or receive */
    uint64_t count;                    /* of elements */
    int64_t called_ms;
    uint8_t coll, type, op; /* indices of words */
    int32_t root;
};
_Static_assert(sizeof(struct collective_trace_call) == 64, "a call is a cache line");

struct collective_trace_comm {
    _Atomic uint32_t owner; /* a pid; 0: nobody's */
    uint32_t magic;
    int32_t rank, size; /* of the communicator */
    char name[COLLECTIVE_TRACE_NAME_BYTES];
    struct collective_trace_words words;
    _Alignas(64) _Atomic uint64_t calls, done; /* how many */
    _Atomic uint64_t nth;
    /* calls > done: the first that is not done is under way since then; else all are done */
    _Atomic int64_t since_ms;
    struct {
        _Atomic uint64_t seq; /* calls + 1; else none is */
        uint64_t nth, count;
        uint8_t coll, type, op;
        int32_t root;
    } begun;
    _Atomic int32_t failed; /* -errno */
    struct collective_trace_call ring[COLLECTIVE_TRACE_CALLS];
};
_Static_assert(COLLECTIVE_TRACE_COMMS * sizeof(struct collective_trace_comm) <=
                   COLLECTIVE_TRACE_RANK_BYTES,
               "a rank's part");

/* For a communicator; NULL where nobody reads, or all places are taken. `rank` and `size` are the
 * communicator's; `name` is the same on all of its ranks. */
struct collective_trace_comm *collective_trace_open(const struct collective_trace_words *words,
                                                    const char *name, int rank, int size);
/* The place is another's then, but where it has failed: that is still to be read. NULL is fine,
 * here and below. */
void collective_trace_close(struct collective_trace_comm *n);

/* A call is being begun, by every rank (`all`) or not. coll, type and op are indices of words. Then
 * it is under way, or was refused. */
static inline void collective_trace_call(struct collective_trace_comm *n, bool all, unsigned coll,
                                         unsigned type, unsigned op, int root, uint64_t count)
{
    if (!n)
        return;
    atomic_store_explicit(&n->begun.seq, 0, memory_order_release);
    atomic_thread_fence(memory_order_release);
    n->begun.nth = all ? atomic_load_explicit(&n->nth, memory_order_relaxed) + 1 : 0;
    n->begun.count = count;
    n->begun.coll = (uint8_t)coll;
    n->begun.type = (uint8_t)type;
    n->begun.op = (uint8_t)op;
    n->begun.root = root;
    uint64_t calls = atomic_load_explicit(&n->calls, memory_order_relaxed);
    atomic_store_explicit(&n->begun.seq, calls + 1, memory_order_release);
}
void collective_trace_pending(struct collective_trace_comm *n);
void collective_trace_refused(struct collective_trace_comm *n);
/* All that were made are done, since then. */
void collective_trace_done(struct collective_trace_comm *n, int64_t now_ms);
/* The communicator has failed; what was not done stays so. */
void collective_trace_failed(struct collective_trace_comm *n, int error);

#endif
