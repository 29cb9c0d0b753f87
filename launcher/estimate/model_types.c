#include "launcher/estimate/model_types.h"

#include <errno.h>
#include <string.h>

#include "common/mem.h"
#include "launcher/estimate/model_keys.h"

/* ---- encoders of text ----------------------------------------------------------------------- */

/* The parameters of a head, by the end of the class's name. `transform`: a square matrix with bias
 * before the output; `pooler`: one over the first token; `norm`: a norm in the transform. */
static const struct head {
    const char *end;
    bool logits, transform, pooler, classes;
} heads[] = {
    {"MaskedLM", .logits = true, .transform = true},
    {"LMHeadModel", .logits = true, .transform = true},
    {"ForPreTraining", .logits = true, .transform = true, .pooler = true},
    {"SequenceClassification", .pooler = true, .classes = true},
    {"MultipleChoice", .pooler = true, .classes = true},
    {"TokenClassification", .classes = true},
    {"QuestionAnswering", .classes = true},
    {"", .pooler = true}, /* the model without a head */
};

static const struct head *head_of(const json_t *c)
{
    const char *a = model_keys_architecture(c);
    const struct head *h = heads;
    while (!model_keys_ends(a, h->end))
        h++;
    return h;
}

static int read_head(struct model_shape *m, const json_t *c)
{
    const struct head *head = head_of(c);
    int64_t h = m->hidden, width = m->embedding ? m->embedding : h;
    m->approximate |= model_keys_ends(model_keys_architecture(c), "ForCausalLM");
    m->no_logits = !head->logits;
    m->head_bias = head->logits;
    m->extra = head->transform ? h * width + 3 * width : 0;
    m->extra += head->pooler ? h * h + h : 0;
    m->extra += head->classes ? (h + 1) * model_keys_labels(c) : 0;
    m->extra += head->logits && head->pooler ? 2 * h + 2 : 0; /* which sentence is the next one */
    return 0;
}

static int bert_more(struct model_shape *m, const json_t *c, struct err *e)
{
    bool tasks = false;
    int task_types = 3;
    if (model_keys_bool(&tasks, c, "use_task_id", e) < 0 ||
        model_keys_int(&task_types, c, "task_type_vocab_size", e) < 0)
        return e->code;
    m->token_types += tasks ? task_types : 0;
    return read_head(m, c);
}

static int distilbert_more(struct model_shape *m, const json_t *c, struct err *e)
{
    (void)e;
    read_head(m, c);
    if (!head_of(c)->end[0])
        m->extra = 0; /* no pooler */
    return 0;
}

static int electra_more(struct model_shape *m, const json_t *c, struct err *e)
{
    (void)e;
    int64_t h = m->hidden;
    read_head(m, c);
    m->extra -= head_of(c)->end[0] ? 0 : h * h + h;
    if (model_keys_ends(model_keys_architecture(c), "PreTraining")) { /* which words are real */
        m->no_logits = true;
        m->head_bias = false;
        m->extra = h * h + h + h + 1;
    }
    return 0;
}

/* Positions are relative: a matrix of 2 x buckets rows with a norm. */
static int deberta_more(struct model_shape *m, const json_t *c, struct err *e)
{
    bool own = true, keys = false, relative = false;
    int buckets = 256, convolution = 0;
    int64_t h = m->hidden;
    if (model_keys_bool(&own, c, "position_biased_input", e) < 0 ||
        model_keys_bool(&relative, c, "relative_attention", e) < 0 ||
        model_keys_bool(&keys, c, "share_att_key", e) < 0 ||
        model_keys_int(&buckets, c, "position_buckets", e) < 0 ||
        model_keys_int(&convolution, c, "conv_kernel_size", e) < 0)
        return e->code;
    if (convolution > 1 << 10 || buckets > 1 << 20)
        return err_set(e, -ERANGE, "'conv_kernel_size', 'position_buckets': out of range");
    read_head(m, c);
    m->positions = own ? m->positions : 0;
    m->extra += head_of(c)->end[0] ? 0 : -(h * h + h);
    if (!relative)
        return 0;
    m->extra += (2 * (int64_t)buckets + 2) * h;
    m->extra += convolution ? convolution * h * h + 3 * h : 0;
    m->layer_extra = keys ? 0 : 2 * (h * h + h);
    return 0;
}

static int modernbert_more(struct model_shape *m, const json_t *c, struct err *e)
{
    (void)e;
    const struct head *head = head_of(c);
    int64_t h = m->hidden;
    m->no_logits = !head->logits;
    m->head_bias = head->logits;
    m->extra = (head->end[0] ? h * h + h : 0) - h; /* the first layer has one norm less */
    m->extra += head->classes ? (h + 1) * model_keys_labels(c) : 0;
    return 0;
}

/* ---- decoders ------------------------------------------------------------------------------- */

static int opt_more(struct model_shape *m, const json_t *c, struct err *e)
{
    bool before = true;
    int rc = model_keys_bool(&before, c, "do_layer_norm_before", e);
    m->no_last_norm = !before;
    if (m->embedding && m->embedding != m->hidden) /* the output projects back */
        m->extra += (int64_t)m->embedding * m->hidden;
    return rc;
}

static int one_kv_head(struct model_shape *m, const json_t *c, struct err *e)
{
    bool one = true;
    int rc = model_keys_bool(&one, c, "multi_query", e);
    m->kv_heads = one ? 1 : m->kv_heads;
    return rc;
}

static int falcon_more(struct model_shape *m, const json_t *c, struct err *e)
{
    bool recent = false, parallel = true;
    int norms = 2;
    if (model_keys_bool(&recent, c, "new_decoder_architecture", e) < 0 ||
        model_keys_bool(&parallel, c, "parallel_attn", e) < 0 ||
        model_keys_int(&norms, c, "num_ln_in_parallel_attn", e) < 0)
        return e->code;
    m->norms = recent ? norms : parallel ? 1 : 2;
    return recent ? 0 : one_kv_head(m, c, e);
}

static int stablelm_more(struct model_shape *m, const json_t *c, struct err *e)
{
    bool norms = false, parallel = false;
    if (model_keys_bool(&norms, c, "qk_layernorm", e) < 0 ||
        model_keys_bool(&parallel, c, "use_parallel_residual", e) < 0)
        return e->code;
    m->qk_norm = norms ? MODEL_QK_HEADS : MODEL_QK_NONE;
    m->norms = parallel ? 1 : 2;
    return 0;
}

static int cohere_more(struct model_shape *m, const json_t *c, struct err *e)
{
    bool norms = false;
    int rc = model_keys_bool(&norms, c, "use_qk_norm", e);
    m->qk_norm = norms ? MODEL_QK_HEADS : MODEL_QK_NONE;
    return rc;
}

static int no_out_bias(struct model_shape *m, const json_t *c, struct err *e)
{
    (void)c, (void)e;
    m->out_bias = false;
    return 0;
}

/* "intermediate_size" is the width of an expert, and of the one that all tokens use. */
static int llama4_more(struct model_shape *m, const json_t *c, struct err *e)
{
    int rc = model_keys_int(&m->expert_width, c, "intermediate_size", e);
    m->shared_width = m->expert_width;
    return rc;
}

/* ---- encoder and decoder -------------------------------------------------------------------- */

static void set_side(struct model_shape *m, const struct model_shape *s)
{
    m->side = (struct model_side){.layers = s->layers,
                                  .hidden = s->hidden,
                                  .heads = s->heads,
                                  .intermediate = s->intermediate,
                                  .tokens = s->tokens,
                                  .gated = s->gated,
                                  .rms = s->rms,
                                  .dropout = s->dropout,
                                  .act = s->act,
                                  .params = s->params};
}

/* The encoder has the decoder's shape where no key says otherwise, and no words of its own. */
static int add_encoder(struct model_shape *m, const json_t *c, int positions, int64_t extra,
                       struct err *e)
{
    struct model_shape s = *m;
    if (model_keys_ends(model_keys_architecture(c), "ForCausalLM")) { /* the decoder only */
        m->approximate = true;
        return 0;
    }
    s.vocab = s.tokens = 0;
    s.no_logits = true;
    s.cross = s.head_bias = false;
    s.norms = 2;
    s.extra = extra;
    int rc = model_keys_encoder(&s, c, e);
    s.positions = positions < 0 ? 0 : s.context + positions;
    rc = rc < 0 ? rc : model_shape_complete(&s, e);
    if (rc == 0)
        set_side(m, &s);
    return rc;
}

static int t5_more(struct model_shape *m, const json_t *c, struct err *e)
{
    int buckets = 32;
    int rc = model_keys_int(&buckets, c, "relative_attention_num_buckets", e);
    m->extra = (int64_t)m->heads * buckets;
    m->tied = true;
    return rc < 0 ? rc : add_encoder(m, c, -1, m->extra, e);
}

/* The encoder has as many layers with experts as the decoder. */
static int switch_more(struct model_shape *m, const json_t *c, struct err *e)
{
    int sparse = 3;
    if (model_keys_int(&sparse, c, "num_sparse_decoder_layers", e) < 0)
        return e->code;
    m->expert_every = sparse ? m->layers / sparse : 0;
    m->experts = sparse ? m->experts : 0;
    return t5_more(m, c, e);
}

static int bart_more(struct model_shape *m, const json_t *c, struct err *e)
{
    return add_encoder(m, c, m->positions - m->context, 0, e);
}

static int whisper_more(struct model_shape *m, const json_t *c, struct err *e)
{
    int bins = 80;
    int64_t h = m->hidden;
    int rc = model_keys_int(&bins, c, "num_mel_bins", e);
    rc = rc < 0 ? rc : add_encoder(m, c, 0, 3 * (bins + h) * h + 2 * h, e);
    rc = rc < 0 ? rc : model_keys_int(&m->side.tokens, c, "max_source_positions", e);
    return rc;
}

/* Convolutions over the sound, then positions by a convolution over the frames. The CTC head is an
 * ordinary matrix. */
static int wav2vec_more(struct model_shape *m, const json_t *c, struct err *e)
{
    const json_t *dims = json_object_get(c, "conv_dim"), *sizes = json_object_get(c, "conv_kernel");
    int64_t h = m->hidden, in = 1;
    bool bias = false;
    int width = 128, groups = 16;
    if (model_keys_int(&width, c, "num_conv_pos_embeddings", e) < 0 ||
        model_keys_int(&groups, c, "num_conv_pos_embedding_groups", e) < 0 ||
        model_keys_bool(&bias, c, "conv_bias", e) < 0)
        return e->code;
    const char *norm = json_string_value(json_object_get(c, "feat_extract_norm"));
    bool each = norm && strcmp(norm, "layer") == 0;
    if (json_array_size(dims) - 1 >= 64 || json_array_size(dims) != json_array_size(sizes) ||
        groups < 1 || width > 1 << 16)
        return err_set(e, -EINVAL,
                       "'conv_dim' and 'conv_kernel': not lists of the same length of at most 64");
    m->extra = 0;
    for (size_t i = 0; i < json_array_size(dims); i++) {
        int64_t out = json_integer_value(json_array_get(dims, i));
        int64_t size = json_integer_value(json_array_get(sizes, i));
        if (out < 1 || out > 1 << 16 || size < 1 || size > 1 << 10)
            return err_set(e, -ERANGE, "'conv_dim', 'conv_kernel': a number is out of range");
        m->extra += in * out * size + (bias ? out : 0) + (each || i == 0 ? 2 * out : 0);
        in = out;
    }
    m->extra += 2 * in + in * h + h + h;              /* projection; what stands for a mask */
    m->extra += h * (h / groups) * width + width + h; /* positions */
    if (model_keys_ends(model_keys_architecture(c), "ForCTC"))
        m->extra += (h + 1) * m->vocab;
    m->vocab = 0;
    m->no_logits = true;
    m->context = 0;
    return 0;
}

/* ---- images --------------------------------------------------------------------------------- */

/* Tokens that an image has besides its patches, and parameters of the towers. */
struct image {
    int classes; /* tokens in addition to the patches */
    bool patch_bias, norm_before;
    int extra; /* parameters per width */
};

static int read_image(struct model_shape *m, const json_t *c, const struct image *i, struct err *e)
{
    int size = 224, patch = 16, channels = 3;
    int64_t h = m->hidden;
    if (model_keys_int(&size, c, "image_size", e) < 0 ||
        model_keys_int(&patch, c, "patch_size", e) < 0 ||
        model_keys_int(&channels, c, "num_channels", e) < 0)
        return e->code;
    if (patch < 1 || size / patch < 1 || size > 1 << 14 || channels < 1 || channels > 1 << 10)
        return err_set(e, -ERANGE, "'image_size', 'patch_size': %d and %d are out of range", size,
                       patch);
    int side = size / patch;
    m->tokens = side * side + i->classes;
    m->positions = m->tokens;
    m->vocab = m->context = 0;
    m->no_logits = true;
    m->extra = (int64_t)patch * patch * channels * h + (i->patch_bias ? h : 0);
    m->extra += i->extra * h + (i->norm_before ? 2 * h : 0);
    const char *a = model_keys_architecture(c);
    if (model_keys_ends(a, "ForImageClassification"))
        m->extra += (h + 1) * model_keys_labels(c);
    return 0;
}

static int vit_more(struct model_shape *m, const json_t *c, struct err *e)
{
    static const struct image image = {.classes = 1, .patch_bias = true, .extra = 1};
    int rc = read_image(m, c, &image, e);
    if (model_keys_ends(model_keys_architecture(c), "Model"))
        m->extra += (int64_t)m->hidden * m->hidden + m->hidden;
    return rc;
}

static int deit_more(struct model_shape *m, const json_t *c, struct err *e)
{
    static const struct image image = {.classes = 2, .patch_bias = true, .extra = 2};
    return read_image(m, c, &image, e);
}

static int dinov2_more(struct model_shape *m, const json_t *c, struct err *e)
{
    static const struct image image = {.classes = 1, .patch_bias = true, .extra = 2};
    int rc = read_image(m, c, &image, e);
    m->layer_extra = 2 * (int64_t)m->hidden; /* a factor for each sum */
    return rc;
}

static int siglip_more(struct model_shape *m, const json_t *c, struct err *e)
{
    static const struct image image = {.patch_bias = true};
    bool head = true;
    int64_t h = m->hidden, f = m->intermediate;
    int rc = model_keys_bool(&head, c, "vision_use_head", e);
    rc = rc < 0 ? rc : read_image(m, c, &image, e);
    m->extra += head ? h + 4 * h * h + 4 * h + 2 * h + 2 * h * f + f + h : 0;
    return rc;
}

static int clip_vision_more(struct model_shape *m, const json_t *c, struct err *e)
{
    static const struct image image = {.classes = 1, .norm_before = true, .extra = 1};
    return read_image(m, c, &image, e);
}

static int llama4_vision_more(struct model_shape *m, const json_t *c, struct err *e)
{
    static const struct image image = {.classes = 1, .norm_before = true, .extra = 1};
    int in = 4096, out = 4096;
    int64_t f = m->intermediate;
    int rc = read_image(m, c, &image, e);
    if (rc < 0 || model_keys_int(&in, c, "projector_input_dim", e) < 0 ||
        model_keys_int(&out, c, "projector_output_dim", e) < 0)
        return e->code;
    m->extra += f * in + (int64_t)in * out;
    return 0;
}

/* ---- the table ------------------------------------------------------------------------------ */

#define ALL_BIASES .qkv_bias = true, .out_bias = true, .mlp_bias = true, .norm_bias = true
#define GPT ALL_BIASES, .tied = true
#define LLAMA .gated = true, .rms = true, .act = MODEL_ACT_SILU
#define GEMMA .gated = true, .rms = true, .tied = true, .head_dim = 256, .act = MODEL_ACT_GELU_TANH
#define BERT GPT, .embedding_norm = true, .no_last_norm = true
#define BART BERT, .cross = true
#define LATENT LLAMA, .kv_rank = 512, .q_rank = 0, .nope_dim = 128, .rope_dim = 64, .value_dim = 128
#define T5 .cross = true, .rms = true, .tied = true, .act = MODEL_ACT_RELU
#define VIT ALL_BIASES, .no_logits = true

static const struct model_type types[] = {
    /* decoders */
    {"gpt2", {GPT, .mlp_4h = true, .fused_qkv = true, .act = MODEL_ACT_GELU_NEW}, 0, NULL},
    {"gpt_neo",
     {.mlp_4h = true,
      .out_bias = true,
      .mlp_bias = true,
      .norm_bias = true,
      .tied = true,
      .act = MODEL_ACT_GELU_NEW},
     0,
     NULL},
    {"gptj",
     {.mlp_4h = true,
      .mlp_bias = true,
      .norm_bias = true,
      .norms = 1,
      .head_bias = true,
      .act = MODEL_ACT_GELU_NEW},
     -1,
     NULL},
    {"codegen",
     {.mlp_4h = true,
      .mlp_bias = true,
      .norm_bias = true,
      .norms = 1,
      .head_bias = true,
      .act = MODEL_ACT_GELU_NEW},
     -1,
     NULL},
    {"bloom", {GPT, .mlp_4h = true, .fused_qkv = true, .embedding_norm = true}, -1, NULL},
    {"falcon",
     {.mlp_4h = true, .fused_qkv = true, .norm_bias = true, .tied = true},
     -1,
     falcon_more},
    {"mpt", {.tied = true}, -1, NULL},
    {"gpt_bigcode", {GPT, .mlp_4h = true, .act = MODEL_ACT_GELU_TANH}, 0, one_kv_head},
    {"opt", {GPT, .act = MODEL_ACT_RELU}, 2, opt_more},
    {"gpt_neox", {ALL_BIASES, .fused_qkv = true}, -1, NULL},
    {"llama", {LLAMA}, -1, NULL},
    {"mistral", {LLAMA}, -1, NULL},
    {"mixtral", {LLAMA, .experts = 8, .experts_per_token = 2}, -1, NULL},
    {"qwen2", {LLAMA, .qkv_bias = true}, -1, NULL},
    {"qwen2_moe", {LLAMA, .qkv_bias = true, .shared_gate = true}, -1, NULL},
    {"qwen3", {LLAMA, .qk_norm = MODEL_QK_HEAD, .head_dim = 128}, -1, NULL},
    {"qwen3_moe", {LLAMA, .qk_norm = MODEL_QK_HEAD}, -1, NULL},
    {"gemma", {GEMMA}, -1, NULL},
    {"gemma2", {GEMMA, .norms = 4}, -1, NULL},
    {"gemma3_text", {GEMMA, .norms = 4, .qk_norm = MODEL_QK_HEAD}, -1, NULL},
    {"phi", {ALL_BIASES, .norms = 1, .head_bias = true, .act = MODEL_ACT_GELU_NEW}, -1, NULL},
    {"phi3", {LLAMA, .fused_qkv = true}, -1, NULL},
    {"dbrx", {.gated = true, .act = MODEL_ACT_SILU}, -1, NULL},
    {"phimoe", {.gated = true, .act = MODEL_ACT_SILU, .norm_bias = true}, -1, NULL},
    {"deepseek_v2", {LATENT}, -1, NULL},
    {"deepseek_v3", {LATENT}, -1, NULL},
    {"gpt_oss",
     {LLAMA, .sinks = true, .router_bias = true, .expert_bias = true, .qkv_bias = true,
      .out_bias = true},
     -1,
     NULL},
    {"llama4_text", {LLAMA, .experts = 16, .experts_per_token = 1}, -1, llama4_more},
    {"olmo", {.gated = true, .act = MODEL_ACT_SILU, .norm_plain = true}, -1, NULL},
    {"olmo2", {LLAMA, .norm32 = true, .qk_norm = MODEL_QK_WIDE}, -1, NULL},
    {"olmo3", {LLAMA, .norm32 = true, .qk_norm = MODEL_QK_WIDE}, -1, NULL},
    {"olmoe", {LLAMA, .qk_norm = MODEL_QK_WIDE}, -1, NULL},
    {"smollm3", {LLAMA, .tied = true}, -1, NULL},
    {"granite", {LLAMA}, -1, NULL},
    {"granitemoe", {LLAMA}, -1, NULL},
    {"starcoder2", {GPT, .act = MODEL_ACT_GELU_TANH}, -1, NULL},
    {"stablelm", {.gated = true, .norm_bias = true, .act = MODEL_ACT_SILU}, -1, stablelm_more},
    {"cohere", {.gated = true, .tied = true, .norms = 1, .act = MODEL_ACT_SILU}, -1, cohere_more},
    {"nemotron", {.norm_bias = true, .act = MODEL_ACT_RELU2}, -1, NULL},
    {"glm", {LLAMA}, -1, no_out_bias},
    /* encoders */
    {"bert", {BERT}, 0, bert_more},
    {"roberta", {BERT}, 0, bert_more},
    {"xlm-roberta", {BERT}, 0, bert_more},
    {"camembert", {BERT}, 0, bert_more},
    {"ernie", {BERT}, 0, bert_more},
    {"distilbert", {BERT}, 0, distilbert_more},
    {"electra", {BERT, .embedding_bias = true}, 0, electra_more},
    {"albert",
     {BERT, .embedding_bias = true, .one_layer = true, .act = MODEL_ACT_GELU_NEW},
     0,
     bert_more},
    {"deberta-v2", {BERT}, 0, deberta_more},
    {"modernbert", {.gated = true, .tied = true, .embedding_norm = true}, -1, modernbert_more},
    /* encoder and decoder */
    {"t5", {T5}, -1, t5_more},
    {"mt5", {T5}, -1, t5_more},
    {"switch_transformers", {T5, .experts = 8, .experts_per_token = 1}, -1, switch_more},
    {"nllb-moe",
     {GPT, .cross = true, .experts = 128, .experts_per_token = 2, .act = MODEL_ACT_RELU},
     -1,
     bart_more},
    {"bart", {BART}, 2, bart_more},
    {"mbart", {GPT, .embedding_norm = true, .cross = true, .act = MODEL_ACT_GELU}, 2, bart_more},
    {"marian", {GPT, .cross = true, .no_last_norm = true, .act = MODEL_ACT_SILU}, 0, bart_more},
    {"pegasus", {GPT, .cross = true, .act = MODEL_ACT_RELU}, 0, bart_more},
    {"whisper", {GPT, .cross = true, .no_key_bias = true}, 0, whisper_more},
    /* images and sound */
    {"wav2vec2", {VIT}, -1, wav2vec_more},
    {"hubert", {VIT}, -1, wav2vec_more},
    {"vit", {VIT}, -1, vit_more},
    {"deit", {VIT}, -1, deit_more},
    {"dinov2", {VIT}, -1, dinov2_more},
    {"siglip_vision_model", {VIT, .act = MODEL_ACT_GELU_TANH}, -1, siglip_more},
    {"clip_vision_model", {VIT}, -1, clip_vision_more},
    {"clip_text_model", {GPT, .no_logits = true}, 0, NULL},
    {"llama4_vision_model", {VIT}, -1, llama4_vision_more},
};

const struct model_type *model_types_find(const char *type)
{
    for (size_t i = 0; i < COUNT_OF(types); i++)
        if (strcmp(types[i].type, type) == 0)
            return &types[i];
    return NULL;
}

static bool has(const json_t *c, const char *key)
{
    return !json_is_null(json_object_get(c, key)) && json_object_get(c, key);
}

/* A model with an encoder and a decoder has keys for both; an encoder of words has types of tokens
 * or predicts masked ones; an image has patches; a decoder with RMSNorm is like Llama, one without
 * like GPT. */
struct model_type model_types_guess(const json_t *c)
{
    struct model_type t = {.base = {LLAMA, .tied = true}, .learned_positions = -1};
    if (has(c, "encoder_layers"))
        t = (struct model_type){.base = {BART}, .learned_positions = 2, .more = bart_more};
    else if (has(c, "patch_size"))
        t = (struct model_type){.base = {VIT}, .learned_positions = -1, .more = vit_more};
    else if (has(c, "type_vocab_size") || model_keys_ends(model_keys_architecture(c), "MaskedLM"))
        t = (struct model_type){.base = {BERT}, .more = bert_more};
    else if (!has(c, "rms_norm_eps"))
        t = (struct model_type){.base = {GPT, .mlp_4h = true}, .learned_positions = -1};
    model_keys_act(&t.base, c);
    if (t.base.act == MODEL_ACT_SILU && !t.base.cross)
        t.base.gated = true;
    else if (t.base.act == MODEL_ACT_RELU2)
        t.base.gated = false;
    t.base.approximate = true;
    return t;
}

static const struct model_type_defaults defaults[] = {
    {"llama", 32, 4096, 32, 0, 0, 11008, 32000},
    {"mistral", 32, 4096, 32, 8, 0, 14336, 32000},
    {"gemma3_text", 26, 2304, 8, 4, 256, 9216, 262208},
    {"clip_text_model", 12, 512, 8, 0, 0, 2048, 49408},
    {"clip_vision_model", 12, 768, 12, 0, 0, 3072, 0},
    {"siglip_vision_model", 12, 768, 12, 0, 0, 3072, 0},
};

const struct model_type_defaults *model_types_defaults(const char *type)
{
    for (size_t i = 0; i < COUNT_OF(defaults); i++)
        if (strcmp(defaults[i].type, type) == 0)
            return &defaults[i];
    return NULL;
}
