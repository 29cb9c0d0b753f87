#include "launcher/estimate/model_keys.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "common/mem.h"

int model_keys_int(int *out, const json_t *c, const char *key, struct err *e)
{
    if (json_is_null(json_object_get(c, key)))
        return 0;
    int64_t value = *out;
    if (json_optional_int(&value, c, key, e) < 0)
        return e->code;
    if (value < 0 || value > MODEL_KEYS_MAX)
        return err_set(e, -ERANGE, "'%s': %lld is out of range", key, (long long)value);
    *out = (int)value;
    return 0;
}

int model_keys_bool(bool *out, const json_t *c, const char *key, struct err *e)
{
    return json_is_null(json_object_get(c, key)) ? 0 : json_optional_bool(out, c, key, e);
}

const char *model_keys_architecture(const json_t *c)
{
    const char *name = json_string_value(json_array_get(json_object_get(c, "architectures"), 0));
    return name ? name : "";
}

bool model_keys_ends(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

int64_t model_keys_labels(const json_t *c)
{
    size_t n = json_object_size(json_object_get(c, "id2label"));
    return n ? (int64_t)n : 2;
}

/* ---- numbers -------------------------------------------------------------------------------- */

struct key {
    const char *name;
    size_t field; /* offset in struct model_shape */
};
#define KEY(name, field)                          \
    {                                             \
        name, offsetof(struct model_shape, field) \
    }

/* A field has several names; the first one in a file counts. */
static const struct key keys[] = {
    KEY("decoder_layers", layers),
    KEY("num_decoder_layers", layers),
    KEY("num_hidden_layers", layers),
    KEY("num_layers", layers),
    KEY("n_layer", layers),
    KEY("n_layers", layers),
    KEY("depth", layers),
    KEY("embed_dim", hidden),
    KEY("hidden_size", hidden),
    KEY("n_embd", hidden),
    KEY("d_model", hidden),
    KEY("dim", hidden),
    KEY("emb_dim", hidden),
    KEY("n_embed", hidden),
    KEY("decoder_attention_heads", heads),
    KEY("num_attention_heads", heads),
    KEY("num_heads", heads),
    KEY("n_head", heads),
    KEY("n_heads", heads),
    KEY("attention_heads", heads),
    KEY("num_key_value_heads", kv_heads),
    KEY("num_kv_heads", kv_heads),
    KEY("kv_n_heads", kv_heads),
    KEY("num_attention_groups", kv_heads),
    KEY("head_dim", head_dim),
    KEY("d_kv", head_dim),
    KEY("kv_channels", head_dim),
    KEY("intermediate_size_mlp", intermediate),
    KEY("decoder_ffn_dim", intermediate),
    KEY("intermediate_size", intermediate),
    KEY("ffn_dim", intermediate),
    KEY("n_inner", intermediate),
    KEY("d_ff", intermediate),
    KEY("d_inner", intermediate),
    KEY("ffn_hidden_size", intermediate),
    KEY("hidden_dim", intermediate),
    KEY("vocab_size", vocab),
    KEY("n_words", vocab),
    KEY("n_token", vocab),
    KEY("embedding_size", embedding),
    KEY("word_embed_proj_dim", embedding),
    KEY("type_vocab_size", token_types),
    KEY("max_target_positions", context),
    KEY("max_position_embeddings", context),
    KEY("n_positions", context),
    KEY("max_seq_len", context),
    KEY("num_local_experts", experts),
    KEY("num_experts", experts),
    KEY("n_routed_experts", experts),
    KEY("moe_num_experts", experts),
    KEY("num_experts_per_tok", experts_per_token),
    KEY("num_experts_per_token", experts_per_token),
    KEY("moe_top_k", experts_per_token),
    KEY("moe_topk", experts_per_token),
    KEY("moe_k", experts_per_token),
    KEY("top_k_experts", experts_per_token),
    KEY("experts_per_token", experts_per_token),
    KEY("num_selected_experts", experts_per_token),
    KEY("moe_intermediate_size", expert_width),
    KEY("expert_ffn_hidden_size", expert_width),
    KEY("shared_expert_intermediate_size", shared_width),
    KEY("shared_intermediate_size", shared_width),
    KEY("moe_shared_expert_intermediate_size", shared_width),
    KEY("share_expert_dim", shared_width),
    KEY("first_k_dense_replace", dense_layers),
    KEY("num_dense_layers", dense_layers),
    KEY("moe_layer_start_index", dense_layers),
    KEY("decoder_sparse_step", expert_every),
    KEY("interleave_moe_layer_step", expert_every),
    KEY("moe_layer_interval", expert_every),
    KEY("q_lora_rank", q_rank),
    KEY("kv_lora_rank", kv_rank),
    KEY("qk_nope_head_dim", nope_dim),
    KEY("qk_rope_head_dim", rope_dim),
    KEY("v_head_dim", value_dim),
};

static const struct key encoder_keys[] = {
    KEY("encoder_layers", layers),        KEY("num_layers", layers),
    KEY("encoder_ffn_dim", intermediate), KEY("encoder_attention_heads", heads),
    KEY("max_source_positions", context), KEY("encoder_sparse_step", expert_every),
};

static int read_keys(struct model_shape *m, const struct key *rows, size_t count, const json_t *c,
                     struct err *e)
{
    AUTO(free) bool *seen = xcalloc(sizeof *m, sizeof *seen);
    for (size_t i = 0; i < count; i++) {
        const json_t *v = json_object_get(c, rows[i].name);
        if (!v || json_is_null(v) || seen[rows[i].field])
            continue;
        seen[rows[i].field] = true;
        int rc = model_keys_int((int *)((char *)m + rows[i].field), c, rows[i].name, e);
        if (rc < 0)
            return rc;
    }
    return 0;
}

int model_keys_encoder(struct model_shape *m, const json_t *c, struct err *e)
{
    return read_keys(m, encoder_keys, COUNT_OF(encoder_keys), c, e);
}

/* ---- switches ------------------------------------------------------------------------------- */

static int read_switches(struct model_shape *m, const json_t *c, struct err *e)
{
    const struct {
        const char *key;
        bool *to[3];
    } rows[] = {
        {"tie_word_embeddings", {&m->tied}},
        {"attention_bias", {&m->qkv_bias, &m->out_bias}},
        {"mlp_bias", {&m->mlp_bias}},
        {"use_qkv_bias", {&m->qkv_bias}},
        {"qkv_bias", {&m->qkv_bias}},
        {"use_bias", {&m->qkv_bias, &m->out_bias, &m->mlp_bias}},
        {"bias", {&m->qkv_bias, &m->out_bias, &m->mlp_bias}},
        {"enable_bias", {&m->qkv_bias, &m->out_bias, &m->mlp_bias}},
        {"norm_bias", {&m->norm_bias}},
        {"lm_head_bias", {&m->head_bias}},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (int k = 0; k < 3 && rows[i].to[k]; k++) {
            int rc = model_keys_bool(rows[i].to[k], c, rows[i].key, e);
            if (rc < 0)
                return rc;
        }
    return 0;
}

/* ---- dropout, activation functions, soft caps ----------------------------------------------- */

static bool positive(const json_t *c, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (json_number_value(json_object_get(c, names[i])) > 0)
            return true;
    return false;
}

static void read_dropout(struct model_shape *m, const json_t *c)
{
    static const char *const hidden[] = {"resid_pdrop",         "dropout",      "hidden_dropout",
                                         "hidden_dropout_prob", "dropout_rate", "residual_dropout"};
    static const char *const scores[] = {"attn_pdrop", "attention_dropout",
                                         "attention_probs_dropout_prob", "dropout_rate"};
    m->score_dropout = positive(c, scores, COUNT_OF(scores));
    m->dropout = m->score_dropout || positive(c, hidden, COUNT_OF(hidden));
}

void model_keys_act(struct model_shape *m, const json_t *c)
{
    static const char *const names[] = {"hidden_activation", "hidden_act", "activation_function",
                                        "activation", "feed_forward_proj"};
    static const struct {
        const char *word;
        enum model_act act;
    } acts[] = {
        {"gelu", MODEL_ACT_GELU},           {"gelu_pytorch_tanh", MODEL_ACT_GELU_TANH},
        {"gelu_new", MODEL_ACT_GELU_NEW},   {"gelu_fast", MODEL_ACT_GELU_NEW},
        {"gated-gelu", MODEL_ACT_GELU_NEW}, {"silu", MODEL_ACT_SILU},
        {"swish", MODEL_ACT_SILU},          {"swiglu", MODEL_ACT_SILU},
        {"relu", MODEL_ACT_RELU},           {"relu2", MODEL_ACT_RELU2},
        {"xielu", MODEL_ACT_RELU2},
    };
    for (size_t n = COUNT_OF(names); n-- > 0;) {
        const char *word = json_string_value(json_object_get(c, names[n]));
        for (size_t i = 0; word && i < COUNT_OF(acts); i++)
            if (strcmp(acts[i].word, word) == 0)
                m->act = acts[i].act;
    }
    const char *t5 = json_string_value(json_object_get(c, "feed_forward_proj"));
    if (t5)
        m->gated = strncmp(t5, "gated-", 6) == 0;
}

/* Experts that all tokens use are as wide as the others. */
static int read_shared(struct model_shape *m, const json_t *c, struct err *e)
{
    static const char *const names[] = {"n_shared_experts", "num_shared_experts",
                                        "moe_num_shared_experts"};
    int shared = 0, width = m->expert_width ? m->expert_width : m->intermediate;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (model_keys_int(&shared, c, names[i], e) < 0)
            return e->code;
    if (shared > 0 && shared < 1 << 10 && width < 1 << 20)
        m->shared_width = shared * width;
    return 0;
}

int model_keys_read(struct model_shape *m, const json_t *c, struct err *e)
{
    static const char *const parts[] = {"attn_config", "ffn_config"}; /* of DBRX and MPT */
    int rc = read_keys(m, keys, COUNT_OF(keys), c, e);
    for (size_t i = 0; i < COUNT_OF(parts) && rc == 0; i++)
        rc = read_keys(m, keys, COUNT_OF(keys), json_object_get(c, parts[i]), e);
    rc = rc < 0 ? rc : read_switches(m, c, e);
    if (rc < 0)
        return rc;
    double ratio = json_number_value(json_object_get(c, "mlp_ratio")); /* of images; of MPT: */
    ratio = ratio > 0 ? ratio : json_number_value(json_object_get(c, "expansion_ratio"));
    if (ratio > 0 && ratio <= 64 && m->hidden < 1 << 20)
        m->intermediate = (int)(ratio * m->hidden);
    bool experts = true;
    if (model_keys_bool(&experts, c, "is_moe", e) < 0)
        return e->code;
    if (!experts)
        m->experts = m->experts_per_token = 0;
    if (read_shared(m, c, e) < 0)
        return e->code;
    m->dense_layers += (int)json_array_size(json_object_get(c, "mlp_only_layers"));
    m->soft_caps |= json_number_value(json_object_get(c, "attn_logit_softcapping")) > 0;
    m->soft_cap_logits |= json_number_value(json_object_get(c, "final_logit_softcapping")) > 0;
    read_dropout(m, c);
    model_keys_act(m, c);
    return 0;
}

/* ---- stored weights -------------------------------------------------------------------------- */

/* Words of "quantization_config", in lower case, with the bits of a weight and of its scale. */
static const struct {
    const char *word;
    double bits;
} forms[] = {
    {"nvfp4", 4.5}, {"fouroversix", 4.5}, {"mxfp4", 4.25}, {"fp4", 4.25},   {"int4", 4.12},
    {"w4a", 4.12},  {"int2", 2.06},       {"bitnet", 2},   {"mxfp8", 8.25}, {"fp8", 8},
    {"float8", 8},  {"int8", 8},          {"w8a", 8},      {"eetq", 8},
};

static double form_bits(const char *text)
{
    for (size_t i = 0; text && i < COUNT_OF(forms); i++)
        if (strcasestr(text, forms[i].word))
            return forms[i].bits;
    return 0;
}

/* The words and the number of bits where the quantizers of transformers have them. */
static double stored_bits(const json_t *q)
{
    static const char *const words[] = {"format", "quant_algo", "weights", "forward_dtype",
                                        "dtype"};
    static const char *const numbers[] = {"bits", "w_bit", "nbits", "num_bits"};
    double bits = json_is_true(json_object_get(q, "load_in_4bit"))   ? 4.12
                  : json_is_true(json_object_get(q, "load_in_8bit")) ? 8
                                                                     : 0;
    for (size_t i = 0; i < COUNT_OF(words) && bits == 0; i++)
        bits = form_bits(json_string_value(json_object_get(q, words[i])));
    for (size_t i = 0; i < COUNT_OF(numbers) && bits == 0; i++) {
        double n = json_number_value(json_object_get(q, numbers[i]));
        bits = n > 0 && n <= 16 ? n * (n < 8 ? 1.03 : 1) : 0;
    }
    return bits > 0 ? bits : form_bits(json_string_value(json_object_get(q, "quant_method")));
}

double model_keys_stored(const json_t *c)
{
    const json_t *q = json_object_get(c, "quantization_config"), *group;
    const json_t *torchao = json_object_get(json_object_get(q, "quant_type"), "default");
    const json_t *nested[] = {
        q, json_object_get(json_object_get(q, "quant_config"), "weight_quant_params"), /* HQQ */
        json_object_get(json_object_get(q, "global_quant_config"), "weight"),          /* Quark */
    };
    double bits = form_bits(json_string_value(json_object_get(torchao, "_type")));
    const char *name;
    for (size_t i = 0; i < COUNT_OF(nested) && bits == 0; i++)
        bits = stored_bits(nested[i]);
    json_t *groups = bits > 0 ? NULL : json_object_get(q, "config_groups");
    json_object_foreach (groups, name, group) {
        double of = stored_bits(json_object_get(group, "weights"));
        bits = of > bits ? of : bits;
    }
    return bits > 0 ? bits / 8 : json_object_size(q) ? -1 : 0;
}

/* ---- what is not counted -------------------------------------------------------------------- */

int model_keys_countable(const json_t *c, struct err *e)
{
    static const struct {
        const char *key, *what;
    } rows[] = {
        {"state_size", "layers with a state, as Mamba has"},
        {"mamba_d_state", "layers with a state, as Mamba has"},
        {"d_state", "layers with a state, as Mamba has"},
        {"ssm_state_size", "layers with a state, as Mamba has"},
        {"ssm_cfg", "layers with a state, as Mamba has"},
        {"attention_hidden_size", "layers with a state, as RWKV has"},
        {"lru_width", "recurrent layers"},
        {"linear_num_value_heads", "layers of linear attention"},
        {"conv_L_cache", "layers of convolutions"},
        {"hidden_sizes", "stages of several widths"},
        {"depths", "stages of several widths"},
        {"block_sizes", "stages of several widths"},
        {"vocab_size_per_layer_input", "embeddings of each layer"},
        {"entity_vocab_size", "embeddings of entities"},
        {"expert_retrieval_size", "experts that are found by keys"},
        {"zero_expert_num", "experts without parameters"},
        {"q_groups", "matrices in groups"},
        {"block_configs", "layers that differ from each other"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const json_t *v = json_object_get(c, rows[i].key);
        if (!v || json_is_null(v) || json_is_false(v))
            continue;
        err_set(e, -ENOTSUP, "'%s': %s are not counted", rows[i].key, rows[i].what);
        return err_hint(e, "--params 7B, or the safetensors files of the model");
    }
    return 0;
}
