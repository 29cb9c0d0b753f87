/* train - data-parallel training: accumulates, reduces, clips and applies gradients.
 *
 * What is in a global batch depends only on the step, and all ranks apply the same update. So the
 * number of ranks, the accumulation and the size of the micro-batches do not change the curve. */
#pragma once

#include <drover.h>

#include "model.h"
#include "tokens.h"

#define TRAIN_CHECKPOINT "gpt.ckpt"

struct train_config {
    struct model_config model;
    int device; /* the choice of --device, which opens … */
    const struct ops_backend *backend;
    struct ops *dev;              /* … this one */
    int batch;                    /* sequences at once; 0: automatic */
    int batch_min, batch_max;     /* limits of the automatic batch */
    int accumulate, global_batch; /* 0: follows from the other one; set by train_batch() */
    int steps, warmup, seed;
    int log_every, eval_every, checkpoint_every; /* steps; 0: only at the end */
    float lr, decay;
    int zero;                    /* share the optimizer's state out over the ranks (ZeRO stage 1) */
    int profile;                 /* number of steps */
    int evaluate, resume, quiet; /* evaluate: only that */
    const char *checkpoint_dir, *comm, *dump; /* NULL: none */
    const char *data, *token_file;            /* a text, or tokens of 16 bits */
    struct tokens tokens;                     /* of one of the two */
    const char *prompt;                       /* of sample(): the text to continue, … */
    int length;                               /* … the number of tokens, … */
    float temperature;                        /* … and 0 for the likeliest */
};

/* Completes and checks accumulate and global_batch. Returns NULL, or what is wrong. */
const char *train_batch(struct train_config *c, int ranks);
/* Trains, reports metrics and prints the results. If drover requests a stop, or a rank receives
 * SIGTERM, all ranks stop after the same step, with a checkpoint if checkpoint_dir is set. Returns
 * the exit status: 0; 1 after printing an error to stderr; after SIGTERM, since the training is not
 * complete, what a shell reports for a program that SIGTERM has killed. */
int train(const struct train_config *c, struct drover *d);
/* Prints text that the checkpoint's model continues from the prompt; NULL: from a new line. If its
 * vocabulary is not that of bytes, prompt and output are numbers of tokens. Returns the exit
 * status. */
int sample(const struct train_config *c);
