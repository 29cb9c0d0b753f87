/* checkpoint - a training's state in one file: DIR/digits.ckpt. It is replaced as a whole, so that
 * whoever is killed while writing leaves the one before. */
#ifndef DIGITS_CHECKPOINT_H
#define DIGITS_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

struct checkpoint {
    uint64_t config; /* what must be the same to go on: see train.c */
    int64_t step;    /* steps that were done, over all epochs */
    double loss_sum; /* over the samples of the epoch that was begun */
    uint64_t count;  /* values in the state */
    float *state;    /* parameters and moments (mlp.h); the caller's */
};

/* FNV-1a (Fowler, Noll, Vo), 64 bits. */
uint64_t checkpoint_hash(uint64_t h, const void *bytes, size_t n);
#define CHECKPOINT_HASH_INIT UINT64_C(14695981039346656037)

/* 0, or -1 with the reason in `why`. */
int checkpoint_write(const struct checkpoint *c, const char *dir, char *why, size_t why_size);
/* 1: read into *c, whose state has room for c->count values, and whose config it has; 0: there is
 * none; -1: it is damaged or of another training. */
int checkpoint_read(struct checkpoint *c, const char *dir, char *why, size_t why_size);

#endif
