/* buffers - a rank's memory for `drover bench`: filled so that the result is known, and looked over
 * when the collective is done. */
#ifndef DROVER_BUFFERS_H
#define DROVER_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collectives/backend.h"
#include "collectives/busbw.h"
#include "collectives/verify.h"
#include "common/err.h"
#include "common/mem.h"

/* One collective at one size, out of place or in place. */
struct buffers_run {
    struct busbw_shape shape;
    struct verify v; /* its seed is set by buffers_prepare() */
    bool in_place;
};

struct buffers;

/* Room for runs of at most so many bytes, with a guard behind them, all touched. Borrows the
 * backend's object.
 *   -ENOMEM  there is not so much memory */
int buffers_open(struct buffers **out, const struct backend *backend, struct backend_comm *inner,
                 int rank, size_t max_bytes, struct err *e);
void buffers_close(struct buffers *b);
AUTO_DEFINE(buffers, struct buffers *, buffers_close)

/* The call of this rank, `shift` bytes into the buffers. What it points to is b's, until the next.
 */
struct backend_call buffers_call(struct buffers *b, const struct buffers_run *r, size_t shift);

/* Makes a new input, and an output that no collective would leave. */
int buffers_prepare(struct buffers *b, struct buffers_run *r, struct err *e);

/* How many elements of this rank's output are wrong after the call at shift 0, and how many bytes
 * behind it were written. */
int buffers_wrong(struct buffers *b, const struct buffers_run *r, uint64_t *wrong, struct err *e);

/* For tests: flips a bit of element `at` of the output, where there is one. */
int buffers_spoil(struct buffers *b, const struct buffers_run *r, size_t at, struct err *e);

#endif
