/* busbw - computes sizes and bandwidths of a collective as nccl-tests defines them.
 *
 * algbw is the size in the table divided by the time. busbw is algbw times the collective's
 * busbw_factor: for a ring, the rate of the slowest link, for any number of ranks (nccl-tests,
 * doc/PERFORMANCE.md). */
#pragma once

#include <stddef.h>

#include "collectives/bench/analysis/traffic.h"
#include "collectives/comm/backend.h"

/* A row of the table: a collective over some ranks, close to a requested size. */
struct busbw_shape {
    size_t count;      /* elements, as in backend_call */
    size_t in_bytes;   /* length of a rank's input */
    size_t out_bytes;  /* length of its output */
    size_t bytes;      /* the size that the table shows; also the length of an in-place buffer */
    size_t in_stride;  /* in place: rank r's input starts at r * in_stride in the buffer … */
    size_t out_stride; /* … and its output at r * out_stride */
};

/* Returns the shape for a requested size. If the input or output has one part per rank, the size is
 * rounded down so that each part is a multiple of 16 bytes. The shape may be empty. */
struct busbw_shape busbw_shape(enum collective coll, size_t requested_bytes, size_t element_bytes,
                               int ranks);

/* Returns the rate in GB/s (10^9 bytes); 0 if the time is 0. */
double busbw_rate(size_t bytes, double seconds);

/* Returns the shape of an alltoallv at `rank`. Its size in the table is the most that any rank
 * sends or receives. `count` is 0 if the traffic has a matrix. */
struct busbw_shape busbw_traffic_shape(const struct traffic_call *c, int rank);
