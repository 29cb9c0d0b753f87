/* optimizer - AdamW's state: moments, and fp32 master weights if products read bfloat16.
 *
 * With ZeRO stage 1 (Rajbhandari et al. 2020), each rank has the state of its part of each bucket
 * only, updates that part of the weights, and gets the other parts from the other ranks. */
#pragma once

#include "model.h"
#include "ranks.h"

enum { OPTIMIZER_ARRAYS = 3 }; /* weights, first and second moment */

struct optimizer {
    struct model *m;
    struct ranks *ranks;
    int zero;
    float decay;
    size_t shares; /* into which a bucket is divided; this rank has one: all of it without ZeRO */
    float *array[OPTIMIZER_ARRAYS]; /* the weights' is NULL in fp32, in which it is m->w */
    float *state; /* on the host of rank 0: OPTIMIZER_ARRAYS * params floats, without padding */
};

/* Sets up `o`, whose m, ranks, zero and decay are set. Returns 0, or -1: out of memory. */
int optimizer_open(struct optimizer *o);
void optimizer_close(struct optimizer *o);
/* Applies scale * the gradient, as step t = 1, 2, ... Returns 0, or -1 with the error on stderr, as
 * do the functions below. */
int optimizer_update(struct optimizer *o, float lr, float scale, int64_t t);
/* Copies the state from the device to o->state of rank 0; called by all ranks. Destroys the
 * gradient. */
int optimizer_get(struct optimizer *o);
/* Copies rank 0's o->state to the devices of all ranks. Destroys the gradient. */
int optimizer_put(struct optimizer *o);
/* Returns the bytes of state on this rank. */
size_t optimizer_bytes(const struct optimizer *o);
