/* checkpoint - the state of a training in one file, DIR/digits.ckpt.
 *
 * The file is replaced atomically: if a process is killed while it writes, the previous checkpoint
 * remains. */
#ifndef DIGITS_CHECKPOINT_H
#define DIGITS_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

struct checkpoint {
    uint64_t config; /* hash of the options that must not change between runs (train.c) */
    int64_t step;    /* number of completed steps, over all epochs */
    double loss_sum; /* sum of the losses of the current epoch's samples so far */
    uint64_t count;  /* number of values in the state */
    float *state;    /* parameters and moments (mlp.h); owned by the caller */
};

/* Returns the 64-bit FNV-1a hash (Fowler, Noll, Vo) of n bytes. `h` is the hash of the bytes before
 * them; the first call passes CHECKPOINT_HASH_INIT. */
uint64_t checkpoint_hash(uint64_t h, const void *bytes, size_t n);
#define CHECKPOINT_HASH_INIT UINT64_C(14695981039346656037)

/* Writes the checkpoint. Returns 0, or -1 with the error in `why`. */
int checkpoint_write(const struct checkpoint *c, const char *dir, char *why, size_t why_size);
/* Reads the checkpoint into c->state, c->step and c->loss_sum. c->state has room for c->count
 * values. Returns 1 if the checkpoint was read, and 0 if there is none. Returns -1, with the error
 * in `why`, if it is damaged or from a training with other options (c->config). */
int checkpoint_read(struct checkpoint *c, const char *dir, char *why, size_t why_size);

#endif
