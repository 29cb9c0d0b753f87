/* bench_internal - the state of a measurement and its timing, shared by the files of bench. */
#pragma once

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
    int *members;   /* the ranks of comm by their numbers in world */
    struct buffers *buffers;
    double *seconds;         /* one per rank of world */
    double *samples[2];      /* times of a row's single iterations, out of place and in place */
    double *rank_samples[2]; /* the same for each rank, if they are kept */
    struct bench_report_summary summary;
    double busbw_sum; /* sum over `placements` placements */
    size_t placements;
};

/* If `rc` is the error of a call on a communicator, copies it to b->e. Returns rc. */
int bench_comm(struct bench *b, int rc);

/* Waits for everything that was started on comm. */
int bench_wait(struct bench *b);

/* A barrier of all ranks of world. */
int bench_barrier(struct bench *b);

/* Collects `bytes` of host memory from every rank of world, in the order of the ranks. */
int bench_gather(struct bench *b, const void *mine, size_t bytes, void *all);

/* Starts the collective, `shift` bytes into the buffers. */
int bench_start(struct bench *b, const struct buffers_run *r, size_t shift);

/* Ends a CUDA graph of all work that was started since record(). The wait ends when this work is
 * recorded; it is not executed yet. */
int bench_end_graph(struct bench *b);

/* Seconds per operation on this rank: until it was done, and until it was started (-C). */
struct bench_time {
    double done, started;
};

/* Times `iters` iterations. */
int bench_time_iterations(struct bench *b, const struct buffers_run *r, int iters,
                          struct bench_time *out);

/* Times a graph of o->iters iterations that is launched o->graph times. */
int bench_time_graph(struct bench *b, const struct buffers_run *r, struct bench_time *out);

/* Times single iterations until the median is stable, or until there are enough. Collective: every
 * rank gets the same times, so all ranks stop after the same batch. */
int bench_sample(struct bench *b, const struct buffers_run *r,
                 struct bench_report_placement *placement);
