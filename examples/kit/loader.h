/* loader - batches that a thread prepares while the device computes.
 *
 * The loader has two buffers, which may be pinned memory. A thread fills one while the trainer uses
 * the other. It prefetches beyond the last batch, so `fill` accepts any number. What is in a batch
 * depends only on its number, so a resumed training sees the same batches. */
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* Fills `buffer` with batch `number`. Called in increasing order, by a thread. */
typedef void loader_fill_fn(void *arg, int64_t number, void *buffer);

/* The caller sets the first four members. */
struct loader {
    loader_fill_fn *fill;
    void *arg, *buffers[2]; /* batch `number` is in buffers[number % 2] */
    int64_t number;         /* the batch that is being filled */
    int threaded;           /* by a thread, which has not been joined */
    pthread_t thread;
    double waited_s; /* time that loader_next() has waited so far */
};

/* Starts to fill batch l->number, the first one. */
void loader_start(struct loader *l);
/* Returns the next batch's buffer. It stays valid until the next call: then the thread fills it
 * again, so copies from it must be complete. */
void *loader_next(struct loader *l);
/* Waits for the thread. A loader that has not been started is allowed if it is 0. */
void loader_stop(struct loader *l);

/* A file in memory (mmap), read-only. Returns NULL with the error in `why`; n: its size, > 0. */
const uint8_t *loader_map(const char *path, size_t *n, char *why, size_t why_size);
void loader_unmap(const uint8_t *bytes, size_t n);
