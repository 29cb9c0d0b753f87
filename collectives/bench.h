/* bench - walks the sizes of one collective: fill, check, time; the same on every rank. */
#ifndef DROVER_BENCH_H
#define DROVER_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "collectives/comm.h"
#include "collectives/report.h"
#include "collectives/stats.h"
#include "common/err.h"

enum { BENCH_ROOT_ALL = -1 };

/* nccl-tests' options, by its letters. */
struct bench_opts {
    enum backend_coll coll;
    uint64_t min_bytes, max_bytes;   /* -b -e */
    uint64_t step_bytes;             /* -i */
    int factor;                      /* -f; 0: step_bytes are added */
    int iters, warmups, checks;      /* -n -w -c */
    unsigned types, ops;             /* -d -o: a bit for each */
    int root;                        /* -r */
    enum stats_pick pick;            /* -a */
    int blocking;                    /* -z: 1 wait and barrier, 2 wait, after each iteration */
    int64_t wait_ms;                 /* -T */
    int inject_rank, inject_element; /* for tests: an element that this rank spoils; -1: none */
};

/* What rank 0 does with what was measured; the others have none. */
struct bench_sink {
    void (*row)(void *arg, const struct report_row *row);
    void *arg;
};

/* The size after `bytes`, or 0 when that was the last. */
uint64_t bench_next_size(const struct bench_opts *o, uint64_t bytes);

/* Every rank's line for the head, in the order of ranks; `devices` has room for all. Collective. */
int bench_devices(struct drover *d, struct drover_comm *c, struct report_device *devices,
                  struct err *e);

/* Collective. Each row is given to the sink on rank 0 when it is done; *foot is the same on every
 * rank. Fails on the first collective that does (-ETIMEDOUT past wait_ms); wrong data are no
 * failure, but counted. */
int bench_run(const struct bench_opts *o, struct drover *d, struct drover_comm *c,
              const struct bench_sink *sink, struct report_foot *foot, struct err *e);

#endif
