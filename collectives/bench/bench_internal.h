/* bench_internal - what the files of bench share: the state of a measurement, and its timing. */
#ifndef DROVER_BENCH_INTERNAL_H
#define DROVER_BENCH_INTERNAL_H

#include "collectives/bench/bench.h"
#include "collectives/bench/buffers.h"

struct bench {
    const struct bench_opts *o;
    struct drover *d;
    struct drover_comm *world; /* all ranks */
    struct drover_comm *comm;  /* this rank's group; without NCCL_TESTS_SPLIT the same as world */
    const struct backend *backend; /* the function table of comm's backend … */
    struct backend_comm *inner;    /* … and its object for comm */
    struct err *e;
    int rank, size; /* in comm */
    int all;        /* ranks in world */
    int *members;   /* numbers in world of comm's ranks */
    struct buffers *buffers;
    double *seconds;         /* one per rank of world */
    double *samples[2];      /* the single iterations of a row, out of place and in place */
    double *rank_samples[2]; /* the same for each rank, if they are kept */
    struct bench_report_summary summary;
    double busbw_sum; /* of this many placements */
    size_t placements;
};

/* Copies the error of a failed call on a communicator to b->e. Returns rc. */
int bench_comm_failed(struct bench *b, int rc);

/* Waits for everything that was started on comm. */
int bench_wait(struct bench *b);

/* A barrier of all ranks of world. */
int bench_barrier(struct bench *b);

/* Collects `bytes` of host memory from every rank of world, in the order of the ranks. */
int bench_gather(struct bench *b, const void *mine, size_t bytes, void *all);

/* Starts the collective, `shift` bytes into the buffers. */
int bench_start(struct bench *b, const struct buffers_run *r, size_t shift);

/* Ends a CUDA graph of everything that was started since record(): the wait ends when it is
 * recorded, not executed. */
int bench_end_graph(struct bench *b);

/* Seconds per operation on this rank: until it was done, and until it was started (-C). */
struct bench_time {
    double done, started;
};

/* Times `iters` iterations. */
int bench_time_iterations(struct bench *b, const struct buffers_run *r, int iters,
                          struct bench_time *out);

/* The same from a graph of o->iters iterations that is launched o->graph times. */
int bench_time_graph(struct bench *b, const struct buffers_run *r, struct bench_time *out);

/* Times single iterations until they are stable, or until there are enough. Collective; every rank
 * sees the same times, and so stops after the same batch. */
int bench_sample(struct bench *b, const struct buffers_run *r,
                 struct bench_report_placement *placement);

/* Starts nccl-tests' hypercube on comm, an all_gather by doubling: in each round a rank exchanges
 * everything it has with one peer. The number of ranks is a power of 2. */
int bench_start_hypercube(struct drover_comm *comm, const struct backend_call *k);

#endif
