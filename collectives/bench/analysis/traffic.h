/* traffic - how much each rank of an alltoallv sends to each other rank, as in nccl-tests 2.19.
 *
 * Without a matrix, all ranks send the same total, and a rank sends more to ranks that are further
 * behind it in the ring. With a matrix, rank i sends the bytes of cell [i][j] to rank j. All parts
 * are multiples of 16 bytes. */
#pragma once

#include <stddef.h>

#include "common/err.h"
#include "common/mem.h"

struct traffic {
    double spread;  /* 0: as much to every rank … 1: in proportion to the distance */
    size_t *matrix; /* size * size parts in bytes; owned; NULL: none */
    int size;
};

/* Reads a matrix: lines of numbers of bytes, each multiplied by `scale`.
 *   -EINVAL  empty, not square, or not a number of bytes */
int traffic_read(struct traffic *out, const char *text, double scale, struct err *e);
void traffic_free(struct traffic *t);
AUTO_DEFINE(traffic, struct traffic *, traffic_free)

/* One alltoallv of `ranks` ranks. */
struct traffic_call {
    const struct traffic *traffic; /* a matrix has at least `ranks` rows */
    int ranks;
    size_t element; /* bytes */
    size_t count;   /* average number of elements per rank; not used if there is a matrix */
};

/* Returns the number of elements that `from` sends to `to`. */
size_t traffic_count(const struct traffic_call *c, int from, int to);
/* Returns the start of the part for `to` in the input of `from`, in elements. */
size_t traffic_send_start(const struct traffic_call *c, int from, int to);
/* Returns the start of the part from `from` in the output of `to`, in elements. */
size_t traffic_recv_start(const struct traffic_call *c, int to, int from);
/* Returns the most bytes that any rank sends or receives. */
size_t traffic_max_bytes(const struct traffic_call *c);
