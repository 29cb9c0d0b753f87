/* busbw - how much a collective moves, and what that says of the links below, as nccl-tests counts.
 *
 * algbw is the size in the table over the time; busbw multiplies it so that a ring's value is the
 * slowest link's rate, whatever the number of ranks (nccl-tests, doc/PERFORMANCE.md). */
#ifndef DROVER_BUSBW_H
#define DROVER_BUSBW_H

#include <stddef.h>

#include "collectives/comm/backend.h"

/* One line of the table: a collective over `ranks` ranks, near a size that was asked for. */
struct busbw_shape {
    size_t count;      /* elements, as backend_call has them */
    size_t in_bytes;   /* that a rank's input takes */
    size_t out_bytes;  /* that its output takes */
    size_t bytes;      /* the size in the table; both lie in so many bytes when done in place */
    size_t in_stride;  /* in place, rank r's input begins r of these into the buffer … */
    size_t out_stride; /* … and its output r of these */
};

/* Sizes of what has a part for each rank are rounded down so that each rank's part is a
 * multiple of 16 bytes; the shape may be empty. */
struct busbw_shape busbw_shape(enum collective coll, size_t asked_bytes, size_t element_bytes,
                               int ranks);

/* GB/s (10^9); 0 where the time is. */
double busbw_rate(size_t bytes, double seconds);

/* The parts of an alltoallv, in elements: half as many again as `count` and half as many by turns,
 * so that each rank sends and receives ranks * count of them. The same from a to b as from b to a;
 * a rank's part for or of `other` begins where those of the ranks before it end. */
size_t busbw_v_count(size_t count, int ranks, int from, int to);
size_t busbw_v_start(size_t count, int ranks, int rank, int other);

#endif
