/* lineup - ranks lined up by the collective that each is in: who is missing, who calls another one.
 * Pure. */
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

/* A call: "all_reduce of 1024 float, sum". Sends and receives are numbered 0, the others from 1 on:
 * the k-th of a communicator is the same on all of its ranks, or they do not fit together. */
struct collective_mismatch_call {
    uint64_t nth;
    char what[COLLECTIVE_MISMATCH_WHAT_BYTES];
    int64_t ms; /* since it was made; where it is done, since the last that is was */
    bool done;
};

/* Where a rank is, of its communicators in the one that it waits in longest, else that it used
 * last.
 */
struct collective_position {
    char comm[COLLECTIVE_MISMATCH_COMM_BYTES]; /* "": it has none */
    int size;                                  /* ranks of the communicator */
    int64_t waits_ms; /* its first call that is not done was made so long ago; 0: none */
    int failed;       /* -errno where the communicator has failed */
    int count;
    struct collective_mismatch_call
        calls[COLLECTIVE_MISMATCH_CALLS]; /* the last, oldest first; with what it waits in */
};

struct collective_mismatch_rank {
    int rank; /* as it is called */
    const char *node;
    bool exited;
    const struct collective_position *position;
};

/* Appends lines for each communicator in which somebody waits or that has failed; and marks in
 * `odd` (one for each rank, all false before) who is missing in a call or makes another one than
 * most. Says how many communicators there were. */
int collective_mismatch_write(struct strbuf *b, bool *odd,
                              const struct collective_mismatch_rank *ranks, int n);

/* "call 57 of 'world', all_reduce of 1024 float, sum, for 3.2 s": what it waits in. Nothing where
 * it waits in none. */
void collective_mismatch_describe(struct strbuf *b, const struct collective_position *at);

#endif
