/* train - data-parallel training: accumulates, reduces, clips and applies gradients.
 *
 * What is in a global batch depends only on the step, and all ranks apply the same update. So the
 * number of ranks, the accumulation and the size of the micro-batches do not change the curve. */
#ifndef GPT_TRAIN_H
#define GPT_TRAIN_H

#include <drover.h>

#include "model.h"

#define TRAIN_CHECKPOINT "gpt.ckpt"

struct train_config {
    struct model_config model;
    const struct ops_backend *backend;
    int device;
    int batch;                    /* sequences at once; 0: automatic */
    int batch_min, batch_max;     /* limits of the automatic batch */
    int accumulate, global_batch; /* 0: follows from the other one; set by train_batch() */
    int steps, warmup, seed;
    int log_every, eval_every, checkpoint_every; /* steps; 0: only at the end */
    float lr, decay;
    int zero;                    /* share the optimizer's state out over the ranks (ZeRO stage 1) */
    int profile;                 /* number of steps */
    int evaluate, resume, quiet; /* evaluate: only that */
    const char *checkpoint_dir, *comm, *data, *dump; /* NULL: none */
    const uint8_t *text;
    size_t text_size;
};

enum train_end { TRAIN_DONE, TRAIN_STOPPED, TRAIN_TERMINATED };

/* Completes and checks accumulate and global_batch. Returns NULL, or what is wrong. */
const char *train_batch(struct train_config *c, int ranks);
/* Trains, reports metrics and prints the results. If drover requests a stop, or a rank receives
 * SIGTERM, all ranks stop after the same step, with a checkpoint if checkpoint_dir is set. Returns
 * an enum train_end, or -1 after printing the error to stderr. */
int train(const struct train_config *c, struct drover *d);
/* Prints text that the checkpoint's model continues from `prompt`; NULL: from a new line. Returns
 * 0, or -1. */
int sample(const struct train_config *c, const char *prompt, int length, float temperature);

#endif
