#include <math.h>
#include <stdio.h>

#include "common/mem.h"
#include "launcher/estimate/estimate_internal.h"

/* What eager PyTorch keeps for the backward pass, tensor by tensor: docs/drover-estimate.md. The
 * low end has fused kernels (arXiv:2205.05198, torch.compile), the high end repeats keys and values
 * for each head and has a mask of padding. Symbols: h width, f width of the MLP, a heads, s tokens.
 */

enum { LOW, EXPECTED, HIGH };

/* Bytes of a layer's activations per token: in each rank of a tensor-parallel group, divided among
 * them, and for each other token that a token attends to. */
struct layer_bytes {
    double each, divided, pair;
};

/* Widths of numbers in bytes: of products, of their inputs, and of the sum that runs through the
 * layers, which autocast keeps in fp32. */
struct number_bytes {
    double product, input, residual;
    bool autocast;
};

static struct number_bytes number_bytes(const struct estimate_opts *o, int end)
{
    bool mixed = o->precision != ESTIMATE_FP32;
    double e = mixed ? 2 : 4;
    bool autocast = mixed && !o->no_master && end != LOW;
    return (struct number_bytes){e, o->precision == ESTIMATE_FP8 && end != HIGH ? 1 : e,
                                 autocast ? 4 : e, autocast};
}

/* Returns the bytes of the norms and of the inputs of products. Autocast casts once for each
 * product. */
static double norm_bytes(const struct model_shape *m, const struct number_bytes *b, int end)
{
    double h = m->hidden, kept = b->residual;
    int products = (m->fused_qkv ? 1 : 3) + (m->gated ? 2 : 1);
    if (m->rms && end != LOW)
        kept = 4 + (m->norm32 || b->autocast ? 4 : b->product); /* in fp32, and its result */
    double out = b->autocast ? products * b->input : (m->norms > 1 ? 2 : 1) * b->input;
    return h * (m->norms * kept + out);
}

static double attention_bytes(const struct estimate_opts *o, const struct model_shape *m,
                              const struct number_bytes *b, int end)
{
    double e = b->product, q = (double)m->heads * m->head_dim,
           kv = (double)m->kv_heads * m->head_dim;
    bool repeats = m->kv_heads > 1 && (end == HIGH || (end == EXPECTED && o->full_attention));
    if (m->kv_rank) {
        double qk = (double)m->heads * (m->nope_dim + m->rope_dim);
        double v = (double)m->heads * m->value_dim, ranks = (double)m->q_rank + m->kv_rank;
        return (2 * qk + 2 * v) * e + (end == LOW ? e : 4 + e) * ranks;
    }
    double bytes = (q + 2 * (repeats ? q : kv)) * e + q * b->input;
    if (end != LOW && m->fused_qkv && !m->positions)
        bytes += (q + kv) * e; /* rotated copies; the values are a view of all three */
    if (end != LOW && m->qk_norm)
        bytes += (q + kv) * (4 + (m->norm32 ? 4 : e));
    if (end != LOW)
        bytes += 4.0 * m->heads; /* a sum for each row of scores */
    return bytes;
}

/* Tensors that an MLP keeps, in units of its width. */
static double mlp_tensors(const struct model_shape *m, const struct number_bytes *b, int end)
{
    double steps = m->act == MODEL_ACT_GELU_NEW && end != LOW ? (b->autocast ? 6 : 3) : 0;
    if (m->gated)
        return (end == LOW ? 3 : 4) + steps;
    return (m->act == MODEL_ACT_RELU ? 1 : 2) + steps;
}

static double mlp_bytes(const struct model_shape *m, const struct number_bytes *b, int end)
{
    double tensors = mlp_tensors(m, b, end), e = b->product, k = m->experts_per_token;
    double per_width = (tensors - 1) * e + b->input, with = model_shape_expert_layers(m);
    double dense = m->intermediate * per_width;
    double experts = (k * m->expert_width + m->shared_width) * per_width +
                     k * m->hidden * (b->input + (end == LOW ? 0 : e)); /* gathered, weighted */
    return (with * experts + (m->layers - with) * dense) / m->layers;
}

/* A score keeps the softmax in fp32 and its copy in 16 bit; PyTorch's own models of 2019 have only
 * the latter. Dropout keeps a mask, and its result. */
static double score_bytes(const struct model_shape *m, const struct number_bytes *b, int end)
{
    double e = b->product, softmax = e;
    if (end != LOW && e < 4)
        softmax = b->autocast || m->rms || end == HIGH ? 6 : 4;
    double drop = m->dropout ? 1 + (b->autocast ? 0 : e) : 0;
    return softmax + drop + (m->soft_caps && end != LOW ? e : 0);
}

static struct layer_bytes layer_bytes(const struct estimate_opts *o, const struct model_shape *m,
                                      int end)
{
    struct number_bytes b = number_bytes(o, end);
    struct layer_bytes l = {.each = norm_bytes(m, &b, end)};
    double attention = attention_bytes(o, m, &b, end);
    l.divided = attention + mlp_bytes(m, &b, end);
    if (m->cross) {
        l.divided += attention;
        l.each += m->hidden * (b.residual + b.input);
    }
    if (m->dropout)
        l.each += 2 * m->hidden;
    if (o->full_attention && !o->selective)
        l.pair = m->heads * score_bytes(m, &b, end) * (m->cross ? 2 : 1);
    if (end == HIGH)
        l.pair += 2; /* a mask of padding */
    return l;
}

/* Bytes of one layer, of what all layers of a rank keep, and of what they keep without
 * recomputation. */
struct stack_bytes {
    double one, all, plain;
};

static struct stack_bytes stack_bytes(const struct estimate_opts *o, const struct model_shape *m,
                                      double seq, int end)
{
    struct layer_bytes b = layer_bytes(o, m, end);
    struct number_bytes n = number_bytes(o, end);
    double tokens = o->batch * seq / o->cp, t = o->tp, shared = b.divided + b.pair * seq;
    double one = tokens * (end == LOW ? (b.each + shared) / t : b.each + shared / t);
    double layers = end == LOW    ? (double)m->layers / o->pp
                    : end == HIGH ? ceil((double)m->layers / o->pp) * o->pp
                                  : m->layers;
    bool frozen = o->lora_rank || o->trainable; /* inputs of frozen matrices are not needed */
    one *= frozen && end == LOW ? 0.5 : frozen && end == EXPECTED ? 0.65 : 1;
    double inputs = layers * tokens * n.residual * m->hidden / (end == LOW ? t : 1);
    return (struct stack_bytes){one, o->recompute ? inputs : layers * one, layers * one};
}

/* The side as a shape of its own. */
static struct model_shape side_shape(const struct model_side *s)
{
    struct model_shape m = {.layers = s->layers,
                            .hidden = s->hidden,
                            .heads = s->heads,
                            .kv_heads = s->heads,
                            .head_dim = s->hidden / s->heads,
                            .intermediate = s->intermediate,
                            .gated = s->gated,
                            .rms = s->rms,
                            .dropout = s->dropout,
                            .act = s->act,
                            .positions = 1,
                            .norms = 2};
    return m;
}

static struct stack_bytes model_bytes(const struct estimate_opts *o, const struct model_shape *m,
                                      int end)
{
    struct stack_bytes b = stack_bytes(o, m, o->seq, end);
    if (m->side.layers && m->side.heads) {
        struct model_shape s = side_shape(&m->side);
        double tokens = m->side.tokens ? m->side.tokens : o->seq;
        struct stack_bytes side = stack_bytes(o, &s, tokens, end);
        b.all += side.all;
        b.plain += side.plain;
    }
    return b;
}

/* ---- logits --------------------------------------------------------------------------------- */

/* Bytes per token and entry of the vocabulary. Eager: logits in 16 and 32 bit, their log-softmax,
 * its gradient. Measured with transformers on an H100: 12.2 in mixed and 12.1 in fp32 with the
 * activations; up to 14.5 alone. */
static struct estimate_range logit_bytes(const struct estimate_opts *o, const struct model_shape *m)
{
    struct estimate_range r = {4, 12.2, 14.5};
    if (o->precision == ESTIMATE_FP32)
        r = (struct estimate_range){8, 12.1, 16};
    if (m->soft_cap_logits) { /* a division, a tanh, a product */
        r.expected += 2;
        r.high += 8;
    }
    r.low = o->pp > 1 ? 0 : r.low;
    return r;
}

static struct estimate_range logits(const struct estimate_opts *o, const struct model_shape *m)
{
    struct estimate_range r = logit_bytes(o, m);
    double share = (double)o->batch * o->seq / o->cp / o->tp * m->vocab;
    if (m->no_logits)
        return (struct estimate_range){0, 0, 0};
    if (o->loss == ESTIMATE_LOSS_CHUNKED)
        share /= 8;
    if (o->loss != ESTIMATE_LOSS_EAGER)
        r.low /= 2;
    if (o->loss == ESTIMATE_LOSS_FUSED)
        share *= fmin(1, (double)m->hidden / m->vocab);
    return (struct estimate_range){r.low * share, r.expected * share, r.high * share};
}

/* "4 to 14.5 (12.2)": the three ends as multiples of a unit. */
static const char *ends_text(char *buf, size_t size, struct estimate_range r, double unit)
{
    snprintf(buf, size, "%.4g to %.4g (%.4g)", r.low / unit, r.high / unit, r.expected / unit);
    return buf;
}

static void set_logits(struct estimate *s, const struct model_shape *few,
                       const struct model_shape *many)
{
    struct estimate_range a = logits(&s->o, few), b = logits(&s->o, many);
    char each[64];
    if (s->o.model.no_logits)
        estimate_set_part(s, ESTIMATE_LOGITS, a, "0: the model has no output over a vocabulary");
    else
        estimate_set_part(
            s, ESTIMATE_LOGITS,
            (struct estimate_range){fmin(a.low, b.low), (a.expected + b.expected) / 2,
                                    fmax(a.high, b.high)},
            "%s s b V%s: logits, their softmax, and its gradient",
            ends_text(each, sizeof each, a, (double)s->o.batch * s->o.seq * few->vocab),
            few->vocab < many->vocab ? ", V from 32000 to 128000" : "");
}

/* ---- the parts ------------------------------------------------------------------------------ */

struct model_shape estimate_assumed_shape(const struct model_shape *m, double ratio, int head_dim,
                                          int vocab)
{
    struct model_shape g = {.norms = 2, .vocab = vocab, .head_dim = head_dim, .dropout = true};
    g.heads = (int)fmax(1, round(cbrt((double)m->params * ratio / 12) / head_dim));
    g.kv_heads = g.heads;
    g.hidden = g.heads * g.head_dim;
    g.intermediate = 4 * g.hidden;
    g.layers = (int)fmax(1, round((double)m->params / 12 / g.hidden / g.hidden));
    g.largest_layer = m->params / g.layers;
    return g;
}

/* The bytes of all layers, and of one, as multiples of s b h. */
static void set_layers(struct estimate *s, struct estimate_range all, struct estimate_range one)
{
    const struct model_shape *m = &s->o.model;
    bool assumed = m->kind == MODEL_PARAMS_ONLY;
    double unit = (double)s->o.batch * s->o.seq * m->hidden;
    char of_all[64], of_one[64];
    estimate_set_part(s, ESTIMATE_ACTIVATIONS, all, "%s%s%s",
                      assumed ? "usual shapes: 12 L h h = P, h / L from 40 to 160"
                              : ends_text(of_all, sizeof of_all, all, unit * m->layers),
                      assumed ? "" : " L s b h",
                      s->o.recompute   ? ": the input of each layer, and one layer after the logits"
                      : m->side.layers ? ", with the other layers"
                                       : "");
    estimate_set_part(s, ESTIMATE_ONE_LAYER, one, "%s%shalf of to twice a layer, and its gradients",
                      assumed ? "" : ends_text(of_one, sizeof of_one, one, unit),
                      assumed ? "" : " s b h: ");
}

/* With recomputation a whole layer is there, too, when the logits are gone. */
static double recomputed(const struct estimate_opts *o, double one, double logits)
{
    return o->recompute ? fmax(0, one - logits) : 0;
}

void estimate_activations(struct estimate *s)
{
    struct estimate_opts *o = &s->o;
    struct model_shape few = o->model, many = o->model;
    if (o->model.kind == MODEL_PARAMS_ONLY) {
        few = estimate_assumed_shape(&o->model, 160, 128, 32000); /* few wide layers */
        many = estimate_assumed_shape(&o->model, 40, 64, 128000);
        if (!o->model.largest_layer)
            o->model.largest_layer = few.largest_layer;
    }
    set_logits(s, &few, &many);
    struct stack_bytes b[2][3];
    for (int end = LOW; end <= HIGH; end++) {
        b[0][end] = model_bytes(o, &few, end);
        b[1][end] = model_bytes(o, &many, end);
        double gone = (double)s->part[ESTIMATE_LOGITS].expected_bytes;
        for (int i = 0; i < 2; i++) {
            b[i][end].all += end == LOW ? 0 : recomputed(o, b[i][end].one, gone);
            b[i][end].all = fmin(b[i][end].all, b[i][end].plain);
        }
    }
    set_layers(s,
               (struct estimate_range){fmin(b[0][LOW].all, b[1][LOW].all),
                                       (b[0][EXPECTED].all + b[1][EXPECTED].all) / 2,
                                       fmax(b[0][HIGH].all, b[1][HIGH].all)},
               (struct estimate_range){0.5 * fmin(b[0][LOW].one, b[1][LOW].one),
                                       (b[0][EXPECTED].one + b[1][EXPECTED].one) / 2,
                                       2 * fmax(b[0][HIGH].one, b[1][HIGH].one)});
}
