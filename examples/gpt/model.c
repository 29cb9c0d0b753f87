#include "model.h"

#include <math.h>
#include <stdlib.h>

#include "../kit/rng.h"

/* The tensors of a layer: size = cc * channels^2 + c * channels. Norms have a gain and a bias. */
enum { GAIN1, BIAS1, W_QKV, B_QKV, W_OUT, B_OUT, GAIN2, BIAS2, W_UP, B_UP, W_DOWN, B_DOWN };
static const struct {
    unsigned cc, c;
} shape[MODEL_TENSORS] = {{0, 1}, {0, 1}, {3, 0}, {0, 3}, {1, 0}, {0, 1},
                          {0, 1}, {0, 1}, {4, 0}, {0, 4}, {4, 0}, {0, 1}};

enum { ALIGN = 8, PIECE = 256 /* bytes; the alignment of each array of activations */ };

static void add_bucket(struct model *m, size_t n, size_t ranks)
{
    size_t part = ((n + ranks - 1) / ranks + ALIGN - 1) / ALIGN * ALIGN;
    m->bucket[m->buckets++] = (struct model_bucket){.at = m->size, .n = n, .part = part};
    m->params += n;
    m->size += part * ranks;
}

int model_open(struct model *m, int ranks)
{
    size_t C = (size_t)m->c.channels, layer = 0;
    for (int i = 0; i < MODEL_TENSORS; i++) {
        m->tensor[i] = layer;
        layer += shape[i].cc * C * C + shape[i].c * C;
    }
    m->element = m->c.precision == OPS_BF16 ? 2 : sizeof(float);
    add_bucket(m, ((size_t)m->c.vocabulary + (size_t)m->c.context + 2) * C, (size_t)ranks);
    for (int l = 0; l < m->c.layers; l++)
        add_bucket(m, layer, (size_t)ranks);
    m->w = m->ops->alloc(m->dev, m->size * m->element);
    m->g = m->ops->alloc(m->dev, m->size * sizeof *m->g);
    return m->w && m->g ? 0 : -1;
}

void model_close(struct model *m)
{
    m->ops->release(m->dev, m->w);
    m->ops->release(m->dev, m->g);
    m->ops->release(m->dev, m->arena);
}

/* Takes an array of `rows` rows from the arena; NULL while only its size is counted. */
static void *take(struct model *m, size_t rows, size_t width, size_t element)
{
    char *p = m->arena ? (char *)m->arena + m->act_bytes : NULL;
    m->act_bytes += (rows * width * element + PIECE - 1) / PIECE * PIECE;
    return p;
}

static void place(struct model *m)
{
    size_t R = (size_t)m->batch * (size_t)m->c.context, C = (size_t)m->c.channels, e = m->element;
    m->act_bytes = 0;
    for (int l = 0; l < m->c.layers; l++) {
        struct model_acts *a = &m->acts[l];
        if (l > 0 && m->c.recompute)
            *a = m->acts[0]; /* shares all arrays but x */
        a->x = take(m, R, C, e);
        if (l > 0 && m->c.recompute)
            continue;
        a->n1 = take(m, R, C, e);
        a->qkv = take(m, R, 3 * C, e);
        a->att = take(m, R, C, e);
        a->x2 = take(m, R, C, e);
        a->n2 = take(m, R, C, e);
        a->z = take(m, R, 4 * C, e);
        a->u = take(m, R, 4 * C, e);
        a->stat1 = take(m, R, 2, sizeof(float));
        a->stat2 = take(m, R, 2, sizeof(float));
        a->lse = take(m, R, (size_t)m->c.heads, sizeof(float));
    }
    m->x = take(m, R, C, e);
    m->n = take(m, R, C, e);
    m->stat = take(m, R, 2, sizeof(float));
    m->logits = take(m, R, (size_t)ops_padded(m->c.vocabulary), e);
    m->dx = take(m, R, C, e);
    m->d1 = take(m, R, C, e);
    m->d3 = take(m, R, 3 * C, e);
    m->d4 = take(m, R, 4 * C, e);
}

int model_reserve(struct model *m, int batch)
{
    m->ops->release(m->dev, m->arena);
    m->arena = NULL;
    m->batch = batch;
    place(m);
    m->arena = m->ops->alloc(m->dev, m->act_bytes);
    place(m);
    if (!m->arena)
        return -1;
    return m->ops->attend_with(m->dev, m->c.deterministic ? OPS_ATTEND_SAME_BITS : OPS_ATTEND_FAST,
                               batch, m->c.context, m->c.channels, m->c.heads);
}

static void fill(float *vector, size_t n, float value)
{
    for (size_t i = 0; i < n; i++)
        vector[i] = value;
}

void model_init(const struct model *m, uint64_t seed, float *weights)
{
    size_t C = (size_t)m->c.channels;
    for (int b = 0; b < m->buckets; weights += m->bucket[b++].n) {
        uint64_t key = rng_mix(seed) + (uint64_t)b;
        for (size_t i = 0; i < m->bucket[b].n; i++) { /* normal: Box and Muller 1958 */
            float u = 1 - rng_unit(key, 2 * i), v = rng_unit(key, 2 * i + 1);
            weights[i] = 0.02f * sqrtf(-2 * logf(u)) * cosf(2 * (float)M_PI * v);
        }
        if (b == 0) { /* the gain and the bias of the last norm */
            fill(weights + m->bucket[b].n - 2 * C, C, 1);
            fill(weights + m->bucket[b].n - C, C, 0);
        }
        for (int i = 0; i < MODEL_TENSORS && b > 0; i++) {
            size_t n = i == W_OUT || i == W_DOWN ? shape[i].cc * C * C : 0;
            for (float *w = weights + m->tensor[i]; w < weights + m->tensor[i] + n; w++)
                *w /= sqrtf(2 * (float)m->c.layers);
            fill(weights + m->tensor[i], shape[i].c * C, i == GAIN1 || i == GAIN2);
        }
    }
}

void model_decays(const struct model *m, int bucket, struct ops_range ranges[OPS_RANGES])
{
    size_t C = (size_t)m->c.channels, end = m->bucket[bucket].n;
    for (int k = 0; k < OPS_RANGES; k++)
        ranges[k] = (struct ops_range){end, end};
    if (bucket == 0)
        ranges[0] = (struct ops_range){0, end - 2 * C};
    for (int i = 0, k = 0; i < MODEL_TENSORS && bucket > 0; i++)
        if (shape[i].cc > 0)
            ranges[k++] = (struct ops_range){m->tensor[i], m->tensor[i] + shape[i].cc * C * C};
}

/* Returns the weights, or gradients, at position `at` of a bucket. */
static act *w_at(const struct model *m, int bucket, size_t at)
{
    return (char *)m->w + (m->bucket[bucket].at + at) * m->element;
}

static float *g_at(const struct model *m, int bucket, size_t at)
{
    return m->g + m->bucket[bucket].at + at;
}

#define OP(name, what, ...)                \
    do {                                   \
        m->ops->name(m->dev, __VA_ARGS__); \
        if (m->done)                       \
            m->done(m->arg, #name what);   \
    } while (0)
#define W(tensor_) w_at(m, 1 + l, m->tensor[tensor_])
#define G(tensor_) g_at(m, 1 + l, m->tensor[tensor_])

/* Computes the activations of layer l, up to the GELU, from its input. */
static void layer_inner(struct model *m, int l, int B)
{
    const struct model_acts *a = &m->acts[l];
    int T = m->c.context, C = m->c.channels, R = B * T;
    OP(norm, "", a->n1, a->stat1, a->x, NULL, W(GAIN1), W(BIAS1), R, C);
    OP(linear, " qkv", a->qkv, NULL, a->n1, W(W_QKV), W(B_QKV), R, C, 3 * C);
    OP(attend, "", a->att, a->lse, a->qkv, B, T, C, m->c.heads);
    OP(linear, " out", a->x2, NULL, a->att, W(W_OUT), W(B_OUT), R, C, C);
    OP(norm, "", a->n2, a->stat2, a->x2, a->x, W(GAIN2), W(BIAS2), R, C);
    OP(linear, " up", a->u, a->z, a->n2, W(W_UP), W(B_UP), R, C, 4 * C);
}

void model_forward(struct model *m, const uint16_t *token, int B)
{
    int T = m->c.context, C = m->c.channels, R = B * T, L = m->c.layers;
    size_t wpe = (size_t)m->c.vocabulary * (size_t)C, gain = wpe + (size_t)T * (size_t)C;
    OP(embed, "", m->acts[0].x, w_at(m, 0, 0), w_at(m, 0, wpe), token, B, T, C);
    for (int l = 0; l < L; l++) {
        const struct model_acts *a = &m->acts[l];
        act *next = l + 1 < L ? m->acts[l + 1].x : m->x;
        layer_inner(m, l, B);
        OP(linear, " down", next, NULL, a->u, W(W_DOWN), W(B_DOWN), R, 4 * C, C);
        OP(norm, "", NULL, NULL, next, a->x2, NULL, NULL, R, C);
    }
    OP(norm, "", m->n, m->stat, m->x, NULL, w_at(m, 0, gain), w_at(m, 0, gain + (size_t)C), R, C);
    /* If the vocabulary is not a multiple of 8, the product reads up to 7 rows of wpe, too. The
     * loss ignores their logits, and gives them a gradient of 0. */
    OP(linear, " logits", m->logits, NULL, m->n, w_at(m, 0, 0), NULL, R, C,
       ops_padded(m->c.vocabulary));
}

void model_loss(struct model *m, float *sum, const uint16_t *target, int B, float scale)
{
    OP(loss, "", sum, m->logits, target, B * m->c.context, m->c.vocabulary, scale);
}

static void layer_back(struct model *m, int l, int B)
{
    const struct model_acts *a = &m->acts[l];
    int T = m->c.context, C = m->c.channels, R = B * T;
    if (m->c.recompute && l + 1 < m->c.layers) /* the last layer's are still there */
        layer_inner(m, l, B);
    OP(linear_back, " down", m->d4, G(W_DOWN), G(B_DOWN), m->dx, a->z, a->u, W(W_DOWN), R, 4 * C,
       C);
    OP(linear_back, " up", m->d1, G(W_UP), G(B_UP), m->d4, NULL, a->n2, W(W_UP), R, C, 4 * C);
    OP(norm_back, "", m->dx, G(GAIN2), G(BIAS2), m->d1, a->x2, a->stat2, W(GAIN2), R, C);
    OP(linear_back, " out", m->d1, G(W_OUT), G(B_OUT), m->dx, NULL, a->att, W(W_OUT), R, C, C);
    OP(attend_back, "", m->d3, m->d1, a->att, a->lse, a->qkv, B, T, C, m->c.heads);
    OP(linear_back, " qkv", m->d1, G(W_QKV), G(B_QKV), m->d3, NULL, a->n1, W(W_QKV), R, C, 3 * C);
    OP(norm_back, "", m->dx, G(GAIN1), G(BIAS1), m->d1, a->x, a->stat1, W(GAIN1), R, C);
    if (m->ready)
        m->ready(m->arg, 1 + l);
}

void model_backward(struct model *m, const uint16_t *token, int B)
{
    int T = m->c.context, C = m->c.channels, R = B * T;
    size_t wpe = (size_t)m->c.vocabulary * (size_t)C, gain = wpe + (size_t)T * (size_t)C;
    OP(linear_back, " logits", m->d1, g_at(m, 0, 0), NULL, m->logits, NULL, m->n, w_at(m, 0, 0), R,
       C, ops_padded(m->c.vocabulary));
    m->ops->zero(m->dev, m->dx, (size_t)R * (size_t)C * m->element);
    OP(norm_back, "", m->dx, g_at(m, 0, gain), g_at(m, 0, gain + (size_t)C), m->d1, m->x, m->stat,
       w_at(m, 0, gain), R, C);
    for (int l = m->c.layers - 1; l >= 0; l--)
        layer_back(m, l, B);
    OP(embed_back, "", g_at(m, 0, 0), g_at(m, 0, wpe), m->dx, token, B, T, C, m->c.vocabulary);
    if (m->ready)
        m->ready(m->arg, 0);
}
