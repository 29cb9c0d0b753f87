/* ranks - the collectives of the training: reductions that overlap the backward pass.
 *
 * On the CPU a started collective progresses in ranks_poll(), which the trainer calls between
 * operations. On a GPU it runs on a second stream. */
#pragma once

#include <drover.h>
#include <stdbool.h>

#include "ops.h"

/* Marks of ops: the end of the backward pass, then begin and end of each collective of a step. */
enum { RANKS_BACKWARD_END, RANKS_MARKS = 126 };

struct ranks {
    struct drover *d;
    struct drover_comm *comm; /* NULL: one rank */
    const struct ops_backend *ops;
    struct ops *dev;
    int rank, size;
    char *staging; /* a copy on the host; NULL: the communicator can access the device's memory */
    bool failed;
    int started, ended;        /* number of collectives in this step that can overlap */
    double waited_s;           /* time that the trainer has waited for collectives */
    double busy_ms, hidden_ms; /* time of overlapping collectives; its part before BACKWARD_END */
};

enum ranks_what { RANKS_SUM, RANKS_SCATTER, RANKS_GATHER, RANKS_COPY, RANKS_DEAL };

/* Opens the communicator. `backend` may be NULL. `bytes`: the largest collective. Returns 0, or -1
 * with the error on stderr. */
int ranks_open(struct ranks *r, const char *backend, size_t bytes);
void ranks_close(struct ranks *r, bool abort);
/* Prints an error of this rank. Returns -1. */
int ranks_error(const struct ranks *r, const char *what);
/* Returns rc. If it is negative, prints the device's error. */
int ranks_check(const struct ranks *r, int rc);

/* Starts a collective on the n elements of `all`: RANKS_SUM adds up all of it, RANKS_SCATTER only
 * this rank's part `own`, RANKS_GATHER gathers the parts `own`. RANKS_COPY copies rank 0's `all` to
 * `own` of every rank, and RANKS_DEAL this rank's part of it. n is a multiple of the number of
 * ranks, except for RANKS_SUM and RANKS_COPY. With one rank, nothing is done. Failures make the
 * next ranks_wait() return -1. */
void ranks_start(struct ranks *r, enum ranks_what what, void *own, void *all, size_t n,
                 enum drover_type t);
/* The same for a collective that overlaps operations: its time is measured. */
void ranks_overlap(struct ranks *r, enum ranks_what what, void *own, void *all, size_t n);
void ranks_poll(struct ranks *r);
/* Waits for all collectives; later operations see their results. Returns 0, or -1 with the error on
 * stderr. */
int ranks_wait(struct ranks *r);
/* Adds the times of this step's overlapping collectives. Call after ranks_wait(). */
void ranks_end_step(struct ranks *r);
