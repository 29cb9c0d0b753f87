/* checkpoint - the state of a training in one file, DIR/digits.ckpt.
 *
 * The file is replaced atomically: a process that is killed while it writes leaves the previous
 * checkpoint. */
#ifndef DIGITS_CHECKPOINT_H
#define DIGITS_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

struct checkpoint {
    uint64_t config; /* hash of the options that must be the same to resume: see train.c */
    int64_t step;    /* completed steps of all epochs */
    double loss_sum; /* sum over the samples of the current epoch so far */
    uint64_t count;  /* number of values in the state */
    float *state;    /* parameters and moments (mlp.h); owned by the caller */
};

/* Returns the hash of `bytes`, continued from `h`: FNV-1a (Fowler, Noll, Vo), 64 bits. Start with
 * CHECKPOINT_HASH_INIT. */
uint64_t checkpoint_hash(uint64_t h, const void *bytes, size_t n);
#define CHECKPOINT_HASH_INIT UINT64_C(14695981039346656037)

/* Writes the checkpoint. Returns 0, or -1 with the error in `why`. */
int checkpoint_write(const struct checkpoint *c, const char *dir, char *why, size_t why_size);
/* Reads the checkpoint into c->state, which has room for c->count values, c->step and c->loss_sum.
 * Returns 1; 0 if there is no checkpoint; -1 with the error in `why` if it is damaged, or if it is
 * from a training with other options (c->config). */
int checkpoint_read(struct checkpoint *c, const char *dir, char *why, size_t why_size);

#endif
