/* collective_mismatch - compares the collectives that ranks are in: finds ranks that are missing
 * from a call or make a different one. Pure. */
#ifndef DROVER_COLLECTIVE_MISMATCH_H
#define DROVER_COLLECTIVE_MISMATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/strbuf.h"

enum {
    COLLECTIVE_MISMATCH_CALLS = 8,
    COLLECTIVE_MISMATCH_COMM_BYTES = 48,
    COLLECTIVE_MISMATCH_WHAT_BYTES = 64
};

/* A call: "all_reduce of 1024 float, sum". Sends and receives have number 0. The other calls of a
 * communicator are numbered from 1: the k-th one must be the same on all of its ranks. */
struct collective_mismatch_call {
    uint64_t nth;
    char what[COLLECTIVE_MISMATCH_WHAT_BYTES];
    int64_t ms; /* time since the call; if it is done, since the latest completed call */
    bool done;
};

/* The position of a rank in the communicator in which it waits longest, or else which it used
 * last. */
struct collective_position {
    char comm[COLLECTIVE_MISMATCH_COMM_BYTES]; /* "": the rank has no communicator */
    int size;                                  /* ranks of the communicator */
    int64_t waits_ms; /* how long its first unfinished call has been waiting; 0: none */
    int failed;       /* -errno if the communicator has failed; else 0 */
    int count;
    struct collective_mismatch_call
        calls[COLLECTIVE_MISMATCH_CALLS]; /* the last calls, oldest first, including the one it
                                             waits in */
};

struct collective_mismatch_rank {
    int rank; /* number in the job */
    const char *node;
    bool exited; /* with status 0: another end is a failure, and ends the job */
    const struct collective_position *position;
};

/* Appends lines for each communicator that has failed or in which a rank waits. Sets `odd` (one
 * entry per rank, all false before) for ranks that are missing from a call or make a different one
 * than most. Returns the number of communicators. */
int collective_mismatch_write(struct strbuf *b, bool *odd,
                              const struct collective_mismatch_rank *ranks, int n);

/* Appends the call that a rank waits in: "call 57 of 'world', all_reduce of 1024 float, sum".
 * Appends nothing if it does not wait. */
void collective_mismatch_describe(struct strbuf *b, const struct collective_position *at);

#endif
