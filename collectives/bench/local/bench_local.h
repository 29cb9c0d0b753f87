/* bench_local - measures one device by itself: products of matrices (`drover bench gemm`), or
 * copies of its memory and over its link (`drover bench copy`). */
#pragma once

#include "collectives/bench/local/local_device.h"
#include "collectives/bench/local/pcie_link.h"

enum bench_local_what { BENCH_LOCAL_NONE, BENCH_LOCAL_GEMM, BENCH_LOCAL_COPY, BENCH_LOCAL_WHATS };

/* "gemm", "copy"; NULL for BENCH_LOCAL_NONE. */
const char *bench_local_name(enum bench_local_what w);
/* Returns BENCH_LOCAL_NONE if the name is another one. */
enum bench_local_what bench_local_find(const char *name);

struct bench_local_opts {
    enum bench_local_what what;
    const struct local_device_kind *kind;
    uint64_t bytes;        /* of a copy or of an input matrix; 0: large enough for the full rate */
    enum drover_type type; /* of the input matrices; DROVER_TYPES: the kind's own */
    int iters, warmups;    /* timed iterations, at least 1, and untimed ones */
    int checks;            /* results that are checked; 0: none */
    int64_t wait_ms;       /* longest wait for one of them; INT64_MAX: no limit */
    int inject_at; /* for tests: a bit is wrong in this element of the last checked result; -1: in
                      none */
};

/* The result of one device: a plain value that ranks send to each other. */
struct bench_local_row {
    int rank, index; /* index of the device, as its rank sees it */
    char host[64];
    struct local_device_facts device;
    uint64_t bytes;
    int n;                     /* products: rows of a matrix, … */
    enum drover_type type;     /* … type of the inputs, … */
    double seconds, spread;    /* … the median of the times, their spread as a share of it, */
    double tflops;             /* … and the rate: 2 n^3 operations */
    double to_gbps, from_gbps; /* copies: to and from the device; 0: the device is the CPU */
    double within_gbps;        /* copies within its memory: GB/s that are read and written */
    struct pcie_link link;     /* the device's link, right after these copies */
    uint64_t wrong; /* wrong rows of the first product, plus elements of later products that differ
                       from it; or wrong bytes of copies */
};

/* Measures the device `index`. `rank` and `host` of the row are unchanged. A product of n x n
 * matrices needs 2 n^2 bytes of host memory, or 8 n^2 with `checks`; a copy needs twice its size.
 *   -ENOMEM     host or device lacks memory
 *   -ETIMEDOUT  an iteration was not done after wait_ms
 *   others as the device */
int bench_local_run(struct bench_local_row *row, const struct bench_local_opts *o, int index,
                    struct err *e);
