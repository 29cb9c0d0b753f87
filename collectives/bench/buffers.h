/* buffers - a rank's input and output for `drover bench`, filled with known values. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/bench/analysis/busbw.h"
#include "collectives/bench/analysis/verify.h"
#include "collectives/comm/backend.h"
#include "common/err.h"
#include "common/mem.h"

enum { BUFFERS_GUARD = 256 };

/* One collective at one size, out of place or in place. */
struct buffers_run {
    struct busbw_shape shape;
    struct verify v; /* its seed is set by buffers_prepare() */
    bool in_place;
};

struct buffers;

struct buffers_opts {
    size_t max_bytes, shift_bytes; /* largest run; largest buffers_shift() */
    int rank;
    enum backend_memory memory;
};

/* Allocates both buffers, with a guard at each end, and touches all pages. Borrows the backend's
 * object. -ENOMEM  not enough memory */
int buffers_open(struct buffers **out, const struct backend *backend, struct backend_comm *inner,
                 const struct buffers_opts *o, struct err *e);
void buffers_close(struct buffers *b);
AUTO_DEFINE(buffers, struct buffers *, buffers_close)

/* Moves the start of both buffers by `bytes` from their original position. */
void buffers_shift(struct buffers *b, size_t bytes);

/* Returns this rank's call, whose data begin `shift` bytes after the start of the buffers. The
 * result borrows from `b` until the next buffers_call(). */
struct backend_call buffers_call(struct buffers *b, const struct buffers_run *r, size_t shift);

/* Writes a new input, and fills the output with VERIFY_POISON. */
int buffers_prepare(struct buffers *b, struct buffers_run *r, struct err *e);

enum buffers_side { BUFFERS_OUT_END, BUFFERS_OUT_BEGIN, BUFFERS_IN_END, BUFFERS_IN_BEGIN };

/* The wrong data after a call. A plain value that ranks send to each other. */
struct buffers_wrong {
    uint64_t elements;           /* number of wrong elements in the output */
    uint64_t index;              /* index of the first one in the output */
    struct verify_finding first; /* the block that has it */
    struct verify_diagnosis diagnosis;
    uint64_t canaries;      /* number of bytes written outside the output or the input */
    enum buffers_side side; /* where the first of them is … */
    int canary_bytes;       /* … and its distance from the buffer; 1 is the adjacent byte */
};

/* Checks this rank's output after a call at shift 0, and the BUFFERS_GUARD bytes before and behind
 * the output and the input. */
int buffers_check(struct buffers *b, const struct buffers_run *r, struct buffers_wrong *out,
                  struct err *e);

enum buffers_fault {
    BUFFERS_FLIP_BIT,
    BUFFERS_WRITE_BEFORE,
    BUFFERS_WRITE_AFTER,
    BUFFERS_NO_INPUT
};

/* Injects a fault, for tests. BUFFERS_FLIP_BIT flips a bit of element `at` of the output, if that
 * element exists. BUFFERS_WRITE_… write a byte at distance `at` before or after the output.
 * BUFFERS_NO_INPUT zeroes the input; use it before the collective, the others after it. */
int buffers_inject(struct buffers *b, const struct buffers_run *r, enum buffers_fault fault,
                   size_t at, struct err *e);
