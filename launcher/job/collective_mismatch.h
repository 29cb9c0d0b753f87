/* collective_mismatch - compares the collectives that ranks are in: finds ranks that are missing
 * from a call or make a different one. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/strbuf.h"

enum {
    COLLECTIVE_MISMATCH_CALLS = 8,
    COLLECTIVE_MISMATCH_COMM_BYTES = 48,
    COLLECTIVE_MISMATCH_WHAT_BYTES = 64
};

/* A call: "all_reduce of 1024 float, sum". Sends and receives have the number 0. The other calls of
 * a communicator are numbered from 1; call k must be the same on all ranks of the communicator. */
struct collective_mismatch_call {
    uint64_t nth;
    char what[COLLECTIVE_MISMATCH_WHAT_BYTES];
    int64_t ms; /* time since the call was made; if the call is done, time since the latest
                   completed call */
    bool done;
};

/* The position of a rank in one communicator: in the communicator in which it waits longest, or, if
 * it does not wait, in that of its last call. */
struct collective_position {
    char comm[COLLECTIVE_MISMATCH_COMM_BYTES]; /* "": the rank has no communicator */
    int size;                                  /* ranks of the communicator */
    int64_t waits_ms; /* time for which its first unfinished call has been waiting; 0: no call is */
    int failed;       /* -errno if the communicator has failed; else 0 */
    /* The number of calls that are complete, and the time in which calls were not complete, in all
     * communicators of the rank, until `read_ms` (the clock of its node; 0: it has no
     * communicator) */
    int64_t calls_done, waited_ms, read_ms;
    int count;
    struct collective_mismatch_call
        calls[COLLECTIVE_MISMATCH_CALLS]; /* the last calls, oldest first, including the one it
                                             waits in */
};

struct collective_mismatch_rank {
    int rank; /* number in the job */
    const char *node;
    bool exited; /* exited with status 0; any other exit is a failure, which ends the job */
    const struct collective_position *position;
};

/* Appends lines for each communicator that has failed or in which a rank waits. Sets `odd` to true
 * for ranks that are missing from a call, or that make another call than most ranks. `odd` has one
 * entry per rank, all false before. Returns the number of these communicators. */
int collective_mismatch_write(struct strbuf *b, bool *odd,
                              const struct collective_mismatch_rank *ranks, int n);

/* Appends the call in which a rank waits: "call 57 of 'world', all_reduce of 1024 float, sum".
 * Appends nothing if the rank does not wait. */
void collective_mismatch_describe(struct strbuf *b, const struct collective_position *at);
