/* model - a GPT, once for all devices: parameters, activations, forward and backward
 * pass.
 *
 * It is GPT-2's transformer (Radford et al. 2019) with learned positions, and with the embedding as
 * the last matrix. Parameters are one flat vector in buckets, which ranks reduce one by one: bucket
 * 0 has the embeddings and the last norm, bucket 1 + l has layer l. Gradients have the same layout.
 */
#pragma once

#include "ops.h"

enum { MODEL_LAYERS_MAX = 60, MODEL_TENSORS = 12 };

struct model_config {
    int layers, channels, heads, context, vocabulary;
    int recompute; /* keep only each layer's input; the backward pass computes the rest again */
    enum ops_precision precision;
    int deterministic; /* attention has the same bits on each run, too; the rest always has */
};

/* A bucket begins at element `at` and has n parameters. Each of `ranks` ranks owns a part of it;
 * the last part ends with padding. */
struct model_bucket {
    size_t at, n, part;
};

/* The activations of one layer (model.c). */
struct model_acts {
    act *x, *n1, *qkv, *att, *x2, *n2, *z, *u;
    float *stat1, *stat2, *lse;
};

struct model {
    struct model_config c;
    const struct ops_backend *ops;
    struct ops *dev;
    /* Called after each operation, and when the gradients of a bucket are complete; NULL: not. */
    void (*done)(void *arg, const char *operation);
    void (*ready)(void *arg, int bucket);
    void *arg;
    size_t element;      /* bytes of an act */
    size_t params, size; /* number of parameters, without and with padding */
    int buckets;
    struct model_bucket bucket[MODEL_LAYERS_MAX + 1];
    size_t tensor[MODEL_TENSORS]; /* positions in the bucket of a layer */
    act *w;
    float *g;
    int batch; /* largest number of sequences at once */
    size_t act_bytes;
    void *arena; /* all activations */
    struct model_acts acts[MODEL_LAYERS_MAX];
    act *x, *n, *logits, *dx, *d1, *d3, *d4; /* of the last norm; gradients of 1, 3, 4 widths */
    float *stat;
};

/* Sets up an empty `m` whose c, ops and dev are set, with parameters that are 0. Free it with
 * model_close(). Returns 0, or -1: out of memory. */
int model_open(struct model *m, int ranks);
void model_close(struct model *m);
/* Gets memory for up to `batch` sequences: activations, and what attention needs. Returns 0, or -1:
 * out of memory. */
int model_reserve(struct model *m, int batch);
/* Writes initial weights, which depend on the seed only, to m->params floats of the host, without
 * padding. They are GPT-2's: normal with a standard deviation of 0.02, which is divided by the root
 * of 2 * layers in the matrices that end a residual branch; biases are 0, and gains are 1. */
void model_init(const struct model *m, uint64_t seed, float *weights);
/* Writes which parameters of a bucket decay: matrices and embeddings, but no biases and gains. They
 * are positions in the bucket, in order; unused ranges are empty. */
void model_decays(const struct model *m, int bucket, struct ops_range ranges[OPS_RANGES]);

/* The passes over B sequences. token, target: B x context tokens of the device. model_forward()
 * makes logits, in rows of ops_padded(vocabulary). model_loss() adds scale * the loss of each token
 * to *sum. model_backward() adds gradients. */
void model_forward(struct model *m, const uint16_t *token, int B);
void model_loss(struct model *m, float *sum, const uint16_t *target, int B, float scale);
void model_backward(struct model *m, const uint16_t *token, int B);
