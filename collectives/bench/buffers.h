/* buffers - a rank's memory for `drover bench`: filled so that the result is known, and looked over
 * when the collective is done. */
#ifndef DROVER_BUFFERS_H
#define DROVER_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/bench/busbw.h"
#include "collectives/bench/verify.h"
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
    size_t max_bytes, shift_bytes; /* of a run, and of buffers_shift() */
    int rank;
    enum backend_memory memory;
};

/* Room for runs, with a guard before and behind them, all touched. Borrows the backend's object.
 *   -ENOMEM  there is not so much memory */
int buffers_open(struct buffers **out, const struct backend *backend, struct backend_comm *inner,
                 const struct buffers_opts *o, struct err *e);
void buffers_close(struct buffers *b);
AUTO_DEFINE(buffers, struct buffers *, buffers_close)

/* From here on both buffers begin so many bytes later. */
void buffers_shift(struct buffers *b, size_t bytes);

/* The call of this rank, `shift` bytes into the buffers. What it points to is b's, until the next.
 */
struct backend_call buffers_call(struct buffers *b, const struct buffers_run *r, size_t shift);

/* Makes a new input, and an output that no collective would leave. */
int buffers_prepare(struct buffers *b, struct buffers_run *r, struct err *e);

enum buffers_side { BUFFERS_OUT_END, BUFFERS_OUT_BEGIN, BUFFERS_IN_END, BUFFERS_IN_BEGIN };

/* What is wrong after a call. A plain value that ranks send. */
struct buffers_wrong {
    uint64_t elements;           /* of the output */
    uint64_t index;              /* of the first, in the output */
    struct verify_finding first; /* the block that it is in */
    struct verify_diagnosis diagnosis;
    uint64_t canaries;      /* bytes that were written outside of the output, or of the input */
    enum buffers_side side; /* where the first of them is; and how far: before the begin, or … */
    int canary_bytes;       /* … after the end; 1 is the next byte */
};

/* Looks over this rank's output after the call at shift 0, and at BUFFERS_GUARD bytes around it and
 * around the input. */
int buffers_check(struct buffers *b, const struct buffers_run *r, struct buffers_wrong *out,
                  struct err *e);

enum buffers_fault {
    BUFFERS_FLIP_BIT,
    BUFFERS_WRITE_BEFORE,
    BUFFERS_WRITE_AFTER,
    BUFFERS_NO_INPUT
};

/* For tests: flips a bit of element `at` of the output, where there is one; or writes a byte that
 * far before or after it; or makes the input one that adds nothing to a sum (before the call). */
int buffers_inject(struct buffers *b, const struct buffers_run *r, enum buffers_fault how,
                   size_t at, struct err *e);

#endif
