/* loader - batches that a thread prepares while the device computes.
 *
 * The loader has two buffers, which may be pinned memory. A thread fills one while the trainer uses
 * the other. It prefetches beyond the last batch, so `fill` accepts any number. What is in a batch
 * depends only on its number, so a resumed training sees the same batches. */
#ifndef KIT_LOADER_H
#define KIT_LOADER_H

#include <stddef.h>
#include <stdint.h>

/* Fills `buffer` with batch `number`. Called in increasing order, by a thread. */
typedef void loader_fill_fn(void *arg, int64_t number, void *buffer);

struct loader;

/* Starts a loader at batch `first`. `buffers` are two buffers of the caller, which outlive the
 * loader. Returns 0, or -1: out of memory. */
int loader_open(struct loader **out, void *const buffers[2], int64_t first, loader_fill_fn *fill,
                void *arg);
/* Returns the next batch's buffer. It stays valid until the next call: then the thread fills it
 * again, so copies from it must be complete. */
void *loader_next(struct loader *l);
/* Returns the seconds that loader_next() has waited so far. */
double loader_waited_s(const struct loader *l);
void loader_close(struct loader *l);

/* A file in memory (mmap), read-only. Returns NULL with the error in `why`; n: its size, > 0. */
const uint8_t *loader_map(const char *path, size_t *n, char *why, size_t why_size);
void loader_unmap(const uint8_t *bytes, size_t n);

#endif
