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

/* What norms of queries and keys are as wide as. */
enum model_qk_norm {
    MODEL_QK_NONE,
    MODEL_QK_HEAD,  /* one head, for all heads: Qwen 3, Gemma 3 */
    MODEL_QK_HEADS, /* one head, for each head its own: StableLM */
    MODEL_QK_WIDE   /* all heads at once: OLMo 2 */
};

/* Which function is between the matrices of the MLP; how many tensors it keeps. */
enum model_act {
    MODEL_ACT_GELU, /* one kernel: keeps its input */
    MODEL_ACT_SILU,
    MODEL_ACT_RELU,      /* keeps its output, which the next product keeps, too */
    MODEL_ACT_GELU_TANH, /* one kernel */
    MODEL_ACT_GELU_NEW,  /* written in Python with its steps: keeps four more */
    MODEL_ACT_RELU2
};

/* Other layers than the main ones: the encoder of T5, the vision tower of Gemma 3. */
struct model_side {
    int layers, hidden, heads, intermediate; /* layers 0: there is none */
    int tokens;                              /* per sequence; 0: as many as the main layers have */
    bool gated, rms, dropout;
    enum model_act act;
    int64_t params; /* all of it, with embeddings and projections */
};

struct model_shape {
    enum model_kind kind;
    char name[64]; /* for messages: "llama"; may be empty */
    int layers, hidden, heads;
    int kv_heads;     /* heads of keys and values; 0: as many as heads */
    int head_dim;     /* 0: hidden / heads */
    int intermediate; /* width of the MLP; 0: 4 * hidden */
    int vocab;        /* 0 with `no_logits`: the input has no words */
    int embedding;    /* width of the embedding, which a matrix projects; 0: hidden */
    int positions;    /* learned positions; 0: none, as with rotary embeddings */
    int token_types;  /* rows of BERT's segment embedding */
    int context;      /* longest sequence that the model supports; 0: unknown */
    int tokens;       /* a sequence has this many, as images have; 0: as many as the user says */
    int experts, experts_per_token; /* 0: one MLP in each layer */
    int expert_width;               /* width of an expert; 0: intermediate */
    int shared_width;               /* width of the experts that all tokens use, together */
    int dense_layers;               /* layers without experts */
    int expert_every; /* each such layer has experts, the others are dense; 0 and 1: each */
    /* Multi-head latent attention (DeepSeek V2); kv_rank 0: usual attention */
    int q_rank, kv_rank, nope_dim, rope_dim, value_dim;
    bool mlp_4h;        /* a config.json may leave out that the MLP is 4 times as wide */
    bool gated;         /* the MLP has three matrices (SwiGLU, GeGLU) instead of two */
    bool tied;          /* the output uses the matrix of the embedding */
    bool no_logits;     /* the model has no output over the vocabulary */
    bool dropout;       /* it keeps masks of its dropouts for the backward pass */
    bool score_dropout; /* … of the attention, too */
    bool qkv_bias, out_bias, mlp_bias, norm_bias, head_bias;
    bool no_key_bias; /* qkv_bias, but not of the keys: Whisper */
    bool router_bias; /* expert_bias: of the matrices of the experts */
    bool expert_bias;
    bool shared_gate;    /* a gate of the shared experts, hidden wide */
    bool sinks;          /* a parameter per head: gpt-oss */
    bool embedding_bias; /* of the projection of the embedding */
    bool norm_plain;     /* norms without parameters: OLMo */
    bool rms;            /* RMSNorm, which is written in Python and keeps an fp32 input */
    bool norm32;         /* … and multiplies its weights in fp32: Gemma, OLMo 2 */
    bool fused_qkv;      /* one matrix for queries, keys and values */
    bool one_layer;      /* all layers share their parameters: ALBERT */
    bool cross;          /* layers attend to the side's output, too: T5's decoder */
    bool soft_caps;      /* of scores; of logits: soft_cap_logits */
    bool soft_cap_logits;
    bool approximate; /* `params` is a guess from the usual keys */
    enum model_qk_norm qk_norm;
    enum model_act act;
    bool embedding_norm; /* a norm after the embeddings */
    bool no_last_norm;   /* without a norm after the last layer: BERT */
    int norms;           /* norms per layer; 0: 2 */
    int64_t extra;       /* parameters of heads that only some models have, such as BERT's pooler */
    int64_t layer_extra; /* … of each layer */
    struct model_side side;
    int64_t params;        /* total; 0: model_shape_count() computes it from the fields above */
    int64_t largest_layer; /* the largest layer, or the embedding if it is larger; 0: as above */
    double stored_bytes;   /* per parameter of the files; 0: unknown */
    bool stored_layers;    /* … of the layers only: embeddings and output have 16 bit */
};

/* Checks the fields, replaces zeros that mean a default, and sets `params` and `largest_layer` if
 * they are 0. With MODEL_PARAMS_ONLY only `params` is checked.
 *   -EINVAL  a field is missing or does not fit to another one
 *   -ERANGE  a field is out of range */
int model_shape_complete(struct model_shape *m, struct err *e);

/* Reads a number of parameters as users write it: "7B", "350M", "1.5T", "2851e6" (powers of 1000).
 *   -EINVAL  not a number; -ERANGE  not in 1 to MODEL_SHAPE_PARAMS_MAX */
int model_shape_parse_params(int64_t *out, const char *text, struct err *e);

/* Return numbers of parameters of a complete shape: those of a layer with all of its experts, of
 * all layers, and those that are not in the layers: embeddings, last norm, output, extra, and the
 * side. */
int64_t model_shape_layer_params(const struct model_shape *m);
int64_t model_shape_layers_params(const struct model_shape *m);
int64_t model_shape_outer_params(const struct model_shape *m);

/* Returns the number of layers with experts. */
int model_shape_expert_layers(const struct model_shape *m);
