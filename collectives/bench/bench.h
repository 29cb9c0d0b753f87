/* bench - walks the sizes of one collective: fill, check, time; the same on every rank. */
#ifndef DROVER_BENCH_H
#define DROVER_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "collectives/bench/bench_report.h"
#include "collectives/bench/buffers.h"
#include "collectives/bench/rank_groups.h"
#include "collectives/bench/stats.h"
#include "collectives/comm/comm.h"
#include "common/err.h"

enum { BENCH_ROOT_ALL = -1 };

#define BENCH_HYPERCUBE "hypercube" /* nccl-tests' all_gather by doubling */

/* nccl-tests' options, by its letters. */
struct bench_opts {
    enum collective coll;
    uint64_t min_bytes, max_bytes; /* -b -e */
    uint64_t step_bytes;           /* -i */
    int factor;                    /* -f; 0: step_bytes are added */
    int iters, warmups, checks;    /* -n -w -c */
    unsigned types, ops;           /* -d -o: a bit for each */
    int root;                      /* -r */
    enum stats_pick pick;          /* -a */
    int blocking;     /* -z: 1 wait and barrier, 2 wait, after each iteration; 3: 1, not counted */
    int graph;        /* -G: launches of a graph of iters; 0: none */
    int registration; /* -R: 1 each rank's, 2 symmetric */
    int unalign;      /* -u: elements */
    int agg;          /* -m */
    int cycles;       /* -N; 0: without end */
    bool cpu_time;    /* -C */
    bool hypercube;   /* an all_gather by doubling, of a power of 2 ranks */
    int64_t wait_ms;  /* -T */
    bool samples;     /* single iterations are timed too, after those of the table; with a graph its
                         launches, as a share of each */
    enum stats_pick sample_pick;
    bool rank_samples; /* they are kept for each rank, too */
    double stable; /* … until their median is known within this share of it; 0: iters of them … */
    double max_time_s;        /* … or this time is over, for each size */
    struct rank_groups split; /* the ranks work in groups, and root counts within one */
    int inject_rank;          /* for tests: this rank spoils … */
    enum buffers_fault inject;
    int inject_at; /* … that element or byte; -1: none */
};

/* What rank 0 does with what was measured; the others have none. */
struct bench_sink {
    void (*row)(void *arg, const struct bench_report_row *row);
    void (*begin)(void *arg, uint64_t bytes); /* a size, before it is measured; may be NULL */
    void *arg;
};

/* "all_reduce" */
const char *bench_name(const struct bench_opts *o);

/* The size after `bytes`, or 0 when that was the last. */
uint64_t bench_next_size(const struct bench_opts *o, uint64_t bytes);

/* Every rank's line for the head, in the order of ranks; `devices` has room for all. Collective. */
int bench_devices(const struct bench_opts *o, struct drover *d, struct drover_comm *c,
                  struct bench_report_device *devices, struct err *e);

/* The most bytes of a run that the memory of these `n` ranks' GPUs holds; UINT64_MAX: not known. */
uint64_t bench_max_bytes(const struct bench_opts *o, const struct bench_report_device *devices,
                         int n);

/* Collective. Each row is given to the sink on rank 0 when it is done. Times and what is wrong are
 * all groups' together; sizes and bandwidths, in *foot too, those of the rank's own group. Fails on
 * the first collective that does (-ETIMEDOUT past wait_ms); wrong data are no failure, but counted.
 */
int bench_run(const struct bench_opts *o, struct drover *d, struct drover_comm *c,
              const struct bench_sink *sink, struct bench_report_summary *foot, struct err *e);

#endif
