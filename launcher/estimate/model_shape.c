#include "launcher/estimate/model_shape.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/mem.h"

static int64_t attention_params(const struct model_shape *m)
{
    int64_t h = m->hidden, q = (int64_t)m->heads * m->head_dim,
            kv = 2 * (int64_t)m->kv_heads * m->head_dim;
    return h * (2 * q + kv) + (m->qkv_bias ? q + kv : 0) + (m->out_bias ? h : 0) +
           (m->qk_norm ? 2 * (int64_t)m->head_dim : 0);
}

static int64_t mlp_params(const struct model_shape *m)
{
    int64_t h = m->hidden, f = m->intermediate, ups = m->gated ? 2 : 1;
    int64_t one = h * f * (ups + 1) + (m->mlp_bias ? ups * f + h : 0);
    return m->experts ? m->experts * one + h * m->experts : one; /* the router has h * experts */
}

static int64_t norm_params(const struct model_shape *m)
{
    return (int64_t)m->hidden * (m->norm_bias ? 2 : 1);
}

int64_t model_shape_layer_params(const struct model_shape *m)
{
    return attention_params(m) + mlp_params(m) + m->norms * norm_params(m);
}

static int64_t embedding_params(const struct model_shape *m)
{
    int64_t rows = (int64_t)m->vocab + m->positions + m->token_types;
    return rows * m->hidden + (m->embedding_norm ? norm_params(m) : 0);
}

int64_t model_shape_outer_params(const struct model_shape *m)
{
    return embedding_params(m) + (m->embedding_norm ? 0 : norm_params(m)) +
           (m->tied || m->no_logits ? 0 : (int64_t)m->vocab * m->hidden) +
           (m->head_bias ? m->vocab : 0) + m->extra;
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
        {"vocabulary", m->vocab, 1, MODEL_SHAPE_VOCAB_MAX},
        {"positions", m->positions, 0, MODEL_SHAPE_VOCAB_MAX},
        {"token types", m->token_types, 0, MODEL_SHAPE_VOCAB_MAX},
        {"experts", m->experts, 0, 1 << 16},
        {"experts per token", m->experts_per_token, 0, 1 << 16},
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
    if (!m->head_dim && m->hidden % m->heads != 0)
        return err_set(e, -EINVAL, "hidden size %d: not a multiple of %d heads", m->hidden,
                       m->heads);
    m->head_dim = m->head_dim ? m->head_dim : m->hidden / m->heads;
    m->kv_heads = m->kv_heads ? m->kv_heads : m->heads;
    m->intermediate = m->intermediate ? m->intermediate : 4 * m->hidden;
    m->norms = m->norms ? m->norms : 2;
    if (m->heads % m->kv_heads != 0)
        return err_set(e, -EINVAL, "%d heads: not a multiple of %d key-value heads", m->heads,
                       m->kv_heads);
    if (m->intermediate > MODEL_SHAPE_WIDTH_MAX)
        return err_set(e, -ERANGE, "intermediate size: %d is more than %d", m->intermediate,
                       MODEL_SHAPE_WIDTH_MAX);
    if ((int64_t)m->heads * m->head_dim > MODEL_SHAPE_WIDTH_MAX)
        return err_set(e, -ERANGE, "%d heads of %d: wider than %d", m->heads, m->head_dim,
                       MODEL_SHAPE_WIDTH_MAX);
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
            s.params = s.layers * layer + model_shape_outer_params(&s);
        int64_t largest = layer > embedding ? layer : embedding;
        if (!s.largest_layer)
            s.largest_layer = largest < s.params ? largest : s.params;
    }
    int rc = check_total(&s, e);
    if (rc == 0)
        *m = s;
    return rc;
}
