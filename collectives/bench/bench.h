/* bench - measures one collective over a range of sizes: fills the buffers, checks a result, times
 * the collective.
 *
 * Every rank runs the same steps; rank 0 reports. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collectives/bench/analysis/rank_groups.h"
#include "collectives/bench/analysis/stats.h"
#include "collectives/bench/analysis/traffic.h"
#include "collectives/bench/bench_report.h"
#include "collectives/bench/buffers.h"
#include "collectives/comm/comm.h"
#include "common/err.h"

enum { BENCH_ROOT_ALL = -1 };

#define BENCH_HYPERCUBE "hypercube" /* nccl-tests' all_gather by doubling */

/* nccl-tests' options, with its letters. */
struct bench_opts {
    enum collective coll;
    uint64_t min_bytes, max_bytes; /* -b -e */
    uint64_t step_bytes;           /* -i */
    int factor;                    /* -f; 0: step_bytes are added */
    int iters, warmups, checks;    /* -n -w -c */
    int bisect_from;               /* --bisect, a number of nodes; 0: never */
    unsigned types, ops;           /* -d -o: bits of enum drover_type, drover_op */
    int root;                      /* -r */
    enum stats_pick pick;          /* -a */
    int blocking; /* -z, after each iteration: 1 wait and barrier, 2 wait, 3 as 1 but not timed */
    int graph;    /* -G: launches of a graph of `iters` iterations; 0: no graph */
    int registration; /* -R: 1 local, 2 symmetric */
    int unalign;      /* -u: elements */
    int agg;          /* -m */
    int cycles;       /* -N; 0: endless */
    int cpu_time;     /* -C; not 0: the start of the work only */
    bool hypercube;   /* BENCH_HYPERCUBE; coll is all_gather, and the ranks are a power of 2 */
    int64_t wait_ms;  /* -T: maximum time without progress; INT64_MAX: no limit */
    bool samples;     /* after the figures of the table, also time single iterations (with a graph:
                         launches) */
    enum stats_pick sample_pick; /* how the ranks' times of an iteration are combined */
    bool rank_samples;           /* keep each rank's times, too */
    double stable;     /* sample until the median is known to this share, such as 0.02; 0: `iters`
                          samples */
    double max_time_s; /* per size, with `stable` */
    struct traffic traffic;   /* of alltoallv */
    struct rank_groups split; /* groups that work in parallel; `root` is then a rank in the group */
    int inject_rank;          /* for tests: the rank with a fault; -1: none */
    enum buffers_fault inject;
    int inject_at; /* element or byte of the fault */
};

/* Receives the results on rank 0. */
struct bench_sink {
    void (*row)(void *arg, const struct bench_report_row *row);
    void (*begin)(void *arg, uint64_t bytes); /* before a size is measured; may be NULL */
    void *arg;
};

/* Returns the name of the collective: "all_reduce", or BENCH_HYPERCUBE. */
const char *bench_name(const struct bench_opts *o);

/* Returns the size after `bytes`; 0 after the last one. */
uint64_t bench_next_size(const struct bench_opts *o, uint64_t bytes);

/* Collects every rank's device, in the order of the ranks; `devices` has room for all.
 * Collective. */
int bench_devices(const struct bench_opts *o, struct drover *d, struct drover_comm *c,
                  struct bench_report_device *devices, struct err *e);

/* Returns the largest buffer, in bytes, that fits into memory at each of these `n` ranks;
 * UINT64_MAX: not known. */
uint64_t bench_max_bytes(const struct bench_opts *o, const struct bench_report_device *devices,
                         int n);

/* Measures all sizes, types, operations and roots. Collective. Rank 0 passes each row to the sink.
 * Times and wrong elements are those of all groups together. Sizes and bandwidths, also in
 * *summary, are those of the rank's own group. Wrong data are counted and are not an error.
 *   -ETIMEDOUT  a collective was not done after wait_ms
 *   others as the collective */
int bench_run(const struct bench_opts *o, struct drover *d, struct drover_comm *c,
              const struct bench_sink *sink, struct bench_report_summary *summary, struct err *e);
