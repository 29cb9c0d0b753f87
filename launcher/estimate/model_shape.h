/* model_shape - the shape of a transformer, and the number of its parameters.
 *
 * The numbers of a shape are counts of elements, not bytes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"

/* Layers, widths and vocabularies above these limits are rejected, so that no product overflows. */
enum {
    MODEL_SHAPE_LAYERS_MAX = 10000,
    MODEL_SHAPE_WIDTH_MAX = 1 << 20,
    MODEL_SHAPE_VOCAB_MAX = 1 << 24
};

#define MODEL_SHAPE_PARAMS_MAX INT64_C(1000000000000000) /* 1e15 */

enum model_kind {
    MODEL_TRANSFORMER,
    MODEL_PARAMS_ONLY /* only `params` is known, and possibly the largest layer */
};

struct model_shape {
    enum model_kind kind;
    char name[64]; /* for messages: "llama"; may be empty */
    int layers, hidden, heads;
    int kv_heads;     /* heads of keys and values; 0: as many as heads */
    int head_dim;     /* 0: hidden / heads */
    int intermediate; /* width of the MLP; 0: 4 * hidden */
    int vocab;
    int positions;                  /* learned positions; 0: none, as with rotary embeddings */
    int token_types;                /* rows of BERT's segment embedding */
    int context;                    /* longest sequence that the model supports; 0: unknown */
    int experts, experts_per_token; /* 0: one MLP in each layer */
    bool gated;                     /* the MLP has three matrices (SwiGLU, GeGLU) instead of two */
    bool tied;                      /* the output uses the matrix of the embedding */
    bool no_logits;                 /* the model has no output over the vocabulary */
    bool dropout;                   /* it keeps masks of its dropouts for the backward pass */
    bool qkv_bias, out_bias, mlp_bias, norm_bias, head_bias;
    bool qk_norm;        /* norms of queries and keys, head_dim wide */
    bool embedding_norm; /* a norm after the embeddings; without a norm after the last layer */
    int norms;           /* norms per layer; 0: 2 */
    int64_t extra;       /* parameters of heads that only some models have, such as BERT's pooler */
    int64_t params;      /* total; 0: model_shape_count() computes it from the fields above */
    int64_t largest_layer; /* the largest layer, or the embedding if it is larger; 0: as above */
};

/* Checks the fields, replaces zeros that mean a default, and sets `params` and `largest_layer` if
 * they are 0. With MODEL_PARAMS_ONLY only `params` is checked.
 *   -EINVAL  a field is missing or does not fit to another one
 *   -ERANGE  a field is out of range */
int model_shape_complete(struct model_shape *m, struct err *e);

/* Reads a number of parameters as users write it: "7B", "350M", "1.5T", "2851e6" (powers of 1000).
 *   -EINVAL  not a number; -ERANGE  not in 1 to MODEL_SHAPE_PARAMS_MAX */
int model_shape_parse_params(int64_t *out, const char *text, struct err *e);

/* Return numbers of parameters of a complete shape: those of a layer with all of its experts, and
 * those that are not in the layers: embeddings, last norm, output and extra. */
int64_t model_shape_layer_params(const struct model_shape *m);
int64_t model_shape_outer_params(const struct model_shape *m);
