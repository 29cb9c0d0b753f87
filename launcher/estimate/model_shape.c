#include "launcher/estimate/model_shape.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/mem.h"
#include "common/plural.h"

/* Parameters of a matrix of `in` x `out`, with a bias if there is one. */
static int64_t matrix(int64_t in, int64_t out, bool bias)
{
    return in * out + (bias ? out : 0);
}

static int64_t norm_params(const struct model_shape *m, int64_t width)
{
    return m->norm_plain ? 0 : width * (m->norm_bias ? 2 : 1);
}

/* DeepSeek's attention, arXiv:2405.04434: queries, and keys and values, through narrow matrices
 * with a norm each. */
static int64_t latent_attention_params(const struct model_shape *m)
{
    int64_t h = m->hidden, a = m->heads, qk = m->nope_dim + m->rope_dim, kv = m->kv_rank;
    int64_t q =
        m->q_rank ? matrix(h, m->q_rank, m->qkv_bias) + m->q_rank + m->q_rank * a * qk : h * a * qk;
    return q + matrix(h, kv + m->rope_dim, m->qkv_bias) + kv +
           kv * a * (m->nope_dim + m->value_dim) + matrix(a * m->value_dim, h, m->out_bias);
}

static int64_t qk_norm_params(const struct model_shape *m)
{
    int64_t d = m->head_dim, heads = (int64_t)m->heads + m->kv_heads, bias = m->norm_bias;
    return m->qk_norm == MODEL_QK_HEAD    ? 2 * d * (1 + bias)
           : m->qk_norm == MODEL_QK_HEADS ? heads * d
           : m->qk_norm == MODEL_QK_WIDE  ? heads * d
                                          : 0;
}

static int64_t attention_params(const struct model_shape *m)
{
    int64_t h = m->hidden, q = (int64_t)m->heads * m->head_dim,
            kv = (int64_t)m->kv_heads * m->head_dim;
    if (m->kv_rank)
        return latent_attention_params(m);
    return matrix(h, q, m->qkv_bias) + matrix(h, kv, m->qkv_bias && !m->no_key_bias) +
           matrix(h, kv, m->qkv_bias) + matrix(q, h, m->out_bias) + qk_norm_params(m) +
           (m->sinks ? m->heads : 0);
}

static int64_t mlp_params(const struct model_shape *m, int64_t width, bool bias)
{
    int64_t h = m->hidden;
    return (m->gated ? 2 : 1) * matrix(h, width, bias) + matrix(width, h, bias);
}

static int64_t experts_params(const struct model_shape *m)
{
    int64_t h = m->hidden;
    return m->experts * mlp_params(m, m->expert_width, m->expert_bias || m->mlp_bias) +
           matrix(h, m->experts, m->router_bias) +
           (m->shared_width ? mlp_params(m, m->shared_width, m->mlp_bias) : 0) +
           (m->shared_gate ? h : 0);
}

/* A layer without its MLP. */
static int64_t common_params(const struct model_shape *m)
{
    int64_t cross = m->cross ? attention_params(m) + norm_params(m, m->hidden) : 0;
    return attention_params(m) + cross + m->norms * norm_params(m, m->hidden) + m->layer_extra;
}

int model_shape_expert_layers(const struct model_shape *m)
{
    int rest = m->layers - m->dense_layers;
    return !m->experts ? 0 : m->expert_every > 1 ? rest / m->expert_every : rest;
}

int64_t model_shape_layer_params(const struct model_shape *m)
{
    int64_t dense = mlp_params(m, m->intermediate, m->mlp_bias);
    return common_params(m) + (model_shape_expert_layers(m) ? experts_params(m) : dense);
}

int64_t model_shape_layers_params(const struct model_shape *m)
{
    int64_t with = model_shape_expert_layers(m), layers = m->one_layer ? 1 : m->layers;
    return with * (common_params(m) + (with ? experts_params(m) : 0)) +
           (layers - with) * (common_params(m) + mlp_params(m, m->intermediate, m->mlp_bias));
}

static int64_t embedding_params(const struct model_shape *m)
{
    int64_t width = m->embedding, rows = (int64_t)m->vocab + m->token_types;
    /* ALBERT's positions are as narrow as its words, OPT's as wide as its layers. */
    int64_t positions = (int64_t)m->positions * (m->embedding_norm ? width : m->hidden);
    int64_t narrow = width == m->hidden ? 0 : matrix(width, m->hidden, m->embedding_bias);
    return rows * width + positions + narrow + (m->embedding_norm ? norm_params(m, width) : 0);
}

int64_t model_shape_outer_params(const struct model_shape *m)
{
    return embedding_params(m) + (m->no_last_norm ? 0 : norm_params(m, m->hidden)) +
           (m->tied || m->no_logits ? 0 : (int64_t)m->vocab * m->hidden) +
           (m->head_bias ? m->vocab : 0) + m->extra + m->side.params;
}

/* The fields that are numbers, with their range; `0` may stand for a default. */
static int check_ranges(const struct model_shape *m, struct err *e)
{
    const struct {
        const char *name;
        int value, min, max;
    } rows[] = {
        {"layers", m->layers, 1, MODEL_SHAPE_LAYERS_MAX},
        {"hidden size", m->hidden, 1, MODEL_SHAPE_WIDTH_MAX},
        {"heads", m->heads, 1, MODEL_SHAPE_WIDTH_MAX},
        {"key-value heads", m->kv_heads, 0, MODEL_SHAPE_WIDTH_MAX},
        {"head size", m->head_dim, 0, MODEL_SHAPE_WIDTH_MAX},
        {"intermediate size", m->intermediate, 0, MODEL_SHAPE_WIDTH_MAX},
        {"vocabulary", m->vocab, m->no_logits ? 0 : 1, MODEL_SHAPE_VOCAB_MAX},
        {"width of the embedding", m->embedding, 0, MODEL_SHAPE_WIDTH_MAX},
        {"positions", m->positions, 0, MODEL_SHAPE_VOCAB_MAX},
        {"token types", m->token_types, 0, MODEL_SHAPE_VOCAB_MAX},
        {"experts", m->experts, 0, 1 << 16},
        {"experts per token", m->experts_per_token, 0, 1 << 16},
        {"width of an expert", m->expert_width, 0, MODEL_SHAPE_WIDTH_MAX},
        {"width of the shared experts", m->shared_width, 0, MODEL_SHAPE_WIDTH_MAX},
        {"dense layers", m->dense_layers, 0, m->layers},
        {"rank of queries", m->q_rank, 0, MODEL_SHAPE_WIDTH_MAX},
        {"rank of keys and values", m->kv_rank, 0, MODEL_SHAPE_WIDTH_MAX},
        {"head size", m->nope_dim, 0, 1 << 16},
        {"head size", m->rope_dim, 0, 1 << 16},
        {"head size", m->value_dim, 0, 1 << 16},
        {"layers of the encoder", m->side.layers, 0, MODEL_SHAPE_LAYERS_MAX},
        {"hidden size of the encoder", m->side.hidden, 0, MODEL_SHAPE_WIDTH_MAX},
        {"heads of the encoder", m->side.heads, 0, MODEL_SHAPE_WIDTH_MAX},
        {"intermediate size of the encoder", m->side.intermediate, 0, MODEL_SHAPE_WIDTH_MAX},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (rows[i].value < rows[i].min && rows[i].value == 0)
            return err_set(e, -EINVAL, "%s: missing", rows[i].name);
        if (rows[i].value < rows[i].min || rows[i].value > rows[i].max)
            return err_set(e, -ERANGE, "%s: %d is not in %d to %d", rows[i].name, rows[i].value,
                           rows[i].min, rows[i].max);
    }
    return 0;
}

static int complete_fields(struct model_shape *m, struct err *e)
{
    if (!m->head_dim && !m->kv_rank && m->hidden % m->heads != 0)
        return err_set(e, -EINVAL, "hidden size %d: not a multiple of %d heads", m->hidden,
                       m->heads);
    m->head_dim = m->head_dim ? m->head_dim : m->hidden / m->heads;
    m->kv_heads = m->kv_heads ? m->kv_heads : m->heads;
    m->intermediate = m->intermediate ? m->intermediate : 4 * m->hidden;
    m->norms = m->norms ? m->norms : 2;
    m->embedding = m->embedding ? m->embedding : m->hidden;
    m->expert_width = m->expert_width ? m->expert_width : m->intermediate;
    if (m->heads % m->kv_heads != 0)
        return err_set(e, -EINVAL, "%d head%s: not a multiple of %d key-value heads", m->heads,
                       plural_s(m->heads), m->kv_heads);
    if (m->intermediate > MODEL_SHAPE_WIDTH_MAX)
        return err_set(e, -ERANGE, "intermediate size: %d is more than %d", m->intermediate,
                       MODEL_SHAPE_WIDTH_MAX);
    if ((int64_t)m->heads * m->head_dim > MODEL_SHAPE_WIDTH_MAX)
        return err_set(e, -ERANGE, "%d head%s of %d: wider than %d", m->heads, plural_s(m->heads),
                       m->head_dim, MODEL_SHAPE_WIDTH_MAX);
    if (m->experts && !m->experts_per_token)
        m->experts_per_token = 1;
    if (m->experts_per_token > m->experts)
        return err_set(e, -EINVAL, "%d experts per token: more than %d experts",
                       m->experts_per_token, m->experts);
    return 0;
}

static int check_total(const struct model_shape *m, struct err *e)
{
    if (m->params < 1 || m->params > MODEL_SHAPE_PARAMS_MAX)
        return err_set(e, -ERANGE, "parameters: %lld is not in 1 to %lld", (long long)m->params,
                       (long long)MODEL_SHAPE_PARAMS_MAX);
    if (m->largest_layer < 0 || m->largest_layer > m->params)
        return err_set(e, -ERANGE, "largest layer: %lld is not in 1 to the model's %lld parameters",
                       (long long)m->largest_layer, (long long)m->params);
    return 0;
}

int model_shape_parse_params(int64_t *out, const char *text, struct err *e)
{
    static const struct {
        char unit;
        double factor;
    } units[] = {{'K', 1e3}, {'M', 1e6}, {'B', 1e9}, {'G', 1e9}, {'T', 1e12}};
    char *end = NULL;
    double value = strtod(text, &end);
    for (size_t i = 0; end != text && i < COUNT_OF(units); i++)
        if (toupper((unsigned char)*end) == units[i].unit && end[1] == '\0') {
            value *= units[i].factor;
            end++;
        }
    if (end == text || *end || !isfinite(value))
        return err_set(e, -EINVAL, "'%s' is not a number of parameters (like 7B, 350M)", text);
    if (value < 1 || value > (double)MODEL_SHAPE_PARAMS_MAX)
        return err_set(e, -ERANGE, "'%s' is not in 1 to 1000T parameters", text);
    *out = (int64_t)llround(value);
    return 0;
}

int model_shape_complete(struct model_shape *m, struct err *e)
{
    struct model_shape s = *m;
    if (s.kind != MODEL_PARAMS_ONLY) {
        int rc = check_ranges(&s, e);
        rc = rc < 0 ? rc : complete_fields(&s, e);
        if (rc < 0)
            return rc;
        int64_t layer = model_shape_layer_params(&s), embedding = embedding_params(&s);
        /* No term of a layer is above 2^58. The sum of all layers must not overflow either. */
        if (layer > MODEL_SHAPE_PARAMS_MAX / s.layers)
            return err_set(e, -ERANGE, "model: more than %lld parameters",
                           (long long)MODEL_SHAPE_PARAMS_MAX);
        if (!s.params)
            s.params = model_shape_layers_params(&s) + model_shape_outer_params(&s);
        int64_t largest = layer > embedding ? layer : embedding;
        if (!s.largest_layer)
            s.largest_layer = largest < s.params ? largest : s.params;
    }
    int rc = check_total(&s, e);
    if (rc == 0)
        *m = s;
    return rc;
}
