/* Formulas and sources are in docs/drover-estimate.md. Symbols are those of the papers: P
 * parameters of a rank, N data-parallel ranks, L layers, s tokens, b sequences, h width, a heads, f
 * width of the MLP, t tensor-parallel ranks, V vocabulary. */
#include <math.h>
#include <stdio.h>

#include "launcher/estimate/estimate_internal.h"

/* DeepSpeed's default size of a bucket for reduction, in elements. */
static const double BUCKET = 5e8;

/* ---- what does not depend on the batch ------------------------------------------------------ */

/* Bytes per parameter. */
struct widths {
    double weight_low, weight_high, gradient;
    double copy; /* fp32 copies of weights, and of gradients; 0: there are none */
    double state;
};

static struct widths widths(const struct estimate_opts *o)
{
    static const double states[ESTIMATE_OPTIMIZERS] = {[ESTIMATE_MOMENTUM] = 4,
                                                       [ESTIMATE_ADAM] = 8,
                                                       [ESTIMATE_ADAMW] = 8,
                                                       [ESTIMATE_ADAM_8BIT] = 2,
                                                       [ESTIMATE_LION] = 4};
    struct widths w = {.weight_low = 2, .weight_high = 2, .gradient = 2, .copy = 4};
    w.state = states[o->optimizer];
    if (o->precision == ESTIMATE_FP32)
        w = (struct widths){4, 4, 4, 0, w.state};
    if (o->precision == ESTIMATE_FP8) {
        w.weight_low = 1;
        w.weight_high = 4; /* weights in 16 bit, and their 8-bit copies, also transposed */
    }
    if (o->no_master) {
        w.copy = 0;
        w.state = o->optimizer == ESTIMATE_ADAM_8BIT ? w.state : w.state / 2;
    }
    return w;
}

/* Parameters of a rank. The first and the last stage of a pipeline have the embeddings. */
static void rank_params(const struct estimate_opts *o, double *low, double *high)
{
    const struct model_shape *m = &o->model;
    *low = *high = (double)m->params / (o->tp * o->pp);
    if (o->pp > 1 && m->kind != MODEL_PARAMS_ONLY)
        *high = (ceil((double)m->layers / o->pp) * (double)model_shape_layer_params(m) +
                 (double)model_shape_outer_params(m)) /
                o->tp;
}

/* Writes "2" or "2 to 4". */
static const char *range(char *buf, size_t size, double low, double high)
{
    snprintf(buf, size, low < high ? "%.4g to %.4g" : "%.4g", low, high);
    return buf;
}

static void set_parameters(struct estimate *s, const struct widths *w, double low, double high)
{
    const struct estimate_opts *o = &s->o;
    double n = estimate_data_ranks(o), layer = (double)o->model.largest_layer / o->tp;
    double live_low = w->weight_low * layer, live_high = 2 * w->weight_high * layer;
    char weight[32], live[32];
    range(weight, sizeof weight, w->weight_low, w->weight_high);
    range(live, sizeof live, w->weight_low, 2 * w->weight_high);
    if (o->zero < 3)
        estimate_set(s, ESTIMATE_PARAMETERS, w->weight_low * low, w->weight_high * high, "%s P",
                     weight);
    else if (o->offload_params)
        estimate_set(s, ESTIMATE_PARAMETERS, live_low, live_high,
                     "%s x %.0f, the largest layer; the others are in host memory", live, layer);
    else
        estimate_set(s, ESTIMATE_PARAMETERS, w->weight_low * low / n + live_low,
                     w->weight_high * high / n + live_high,
                     "%s P / N + %s x %.0f, the largest layer", weight, live, layer);
}

/* With ZeRO, `c` P / N is an fp32 copy of the own part; without, gradients may be fp32. */
static void set_gradients(struct estimate *s, const struct widths *w, double low, double high)
{
    double n = estimate_data_ranks(&s->o), g = w->gradient, c = w->copy;
    enum estimate_part_kind k = ESTIMATE_GRADIENTS;
    char both[32], own[48] = "";
    range(both, sizeof both, g, fmax(g, c));
    if (c > 0)
        snprintf(own, sizeof own, " + %g P / N", c);
    if (s->o.offload && s->o.zero >= 2)
        estimate_set(s, k, 0, 0, "0: in host memory");
    else if (s->o.zero == 0)
        estimate_set(s, k, g * low, fmax(g, c) * high, "%s P", both);
    else if (s->o.zero == 1)
        estimate_set(s, k, g * low, g * high + c * high / n, "%g P to %g P%s", g, g, own);
    else if (s->o.zero == 2)
        estimate_set(s, k, g * low / n, g * high + c * high / n, "%g P / N to %g P%s", g, g, own);
    else
        estimate_set(s, k, g * low / n, fmax(g, c) * high / n, "%s P / N", both);
}

static void set_optimizer(struct estimate *s, const struct widths *w, double low, double high)
{
    const struct estimate_opts *o = &s->o;
    double n = o->zero ? estimate_data_ranks(o) : 1;
    const char *share = o->zero ? " / N" : "";
    if (o->offload) {
        double all = w->state + w->copy + fmax(w->copy, w->gradient);
        all += o->offload_params ? w->weight_low : 0;
        s->host_bytes = (uint64_t)fmin(all * high / n, 0x1p59);
        estimate_set(s, ESTIMATE_OPTIMIZER_STATE, 0, 0, "0: in host memory");
        estimate_set(s, ESTIMATE_MASTER_WEIGHTS, 0, 0, "0: in host memory");
        return;
    }
    if (o->optimizer == ESTIMATE_ADAFACTOR)
        estimate_set(s, ESTIMATE_OPTIMIZER_STATE, 0, 0.01 * high / n,
                     "0 to 0.01 P%s: rows and columns of each matrix", share);
    else
        estimate_set(s, ESTIMATE_OPTIMIZER_STATE, w->state * low / n, w->state * high / n, "%g P%s",
                     w->state, share);
    estimate_set(s, ESTIMATE_MASTER_WEIGHTS, w->copy * low / n, w->copy * high / n, "%g P%s",
                 w->copy, share);
}

/* ---- what depends on the batch -------------------------------------------------------------- */

/* Bytes of a layer's activations per token: in each rank of a tensor-parallel group, divided among
 * them, and for each other token that a token attends to. */
struct layer_bytes {
    double each, divided, pair;
};

static struct layer_bytes layer_bytes(const struct estimate_opts *o, const struct model_shape *m,
                                      bool high)
{
    bool mixed = o->precision != ESTIMATE_FP32;
    double e = mixed ? 2 : 4;
    double input = o->precision == ESTIMATE_FP8 && !high ? 1 : e; /* of a matrix product */
    double norm = mixed && !o->no_master && high ? 4 : e; /* autocast: the residuals are fp32 */
    double h = m->hidden, f = m->intermediate, q = (double)m->heads * m->head_dim,
           kv = (double)m->kv_heads * m->head_dim, k = m->experts ? m->experts_per_token : 1;
    struct layer_bytes b = {0};
    b.each = m->norms * h * norm + h * input;
    if (m->norms > 1)
        b.each += k * h * input; /* else the MLP has the input of the attention */
    b.divided = (q + 2 * kv) * e + q * input;
    if (m->gated)
        b.divided += k * f * ((high ? 3 : 2) * e + input);
    else
        b.divided += k * f * (e + input);
    if (m->dropout)
        b.each += 2 * h;
    if (o->full_attention)
        b.pair = m->heads * (m->dropout ? 2 * e + 1 : e);
    return b;
}

static double activation_bytes(const struct estimate_opts *o, const struct model_shape *m,
                               bool high)
{
    struct layer_bytes b = layer_bytes(o, m, high);
    double tokens = (double)o->batch * o->seq, t = o->tp, e = o->precision == ESTIMATE_FP32 ? 4 : 2;
    double shared = b.divided + b.pair * o->seq;
    double layer = tokens * (high ? b.each + shared / t : (b.each + shared) / t);
    double layers = high ? ceil((double)m->layers / o->pp) * o->pp : (double)m->layers / o->pp;
    if (!o->recompute)
        return layers * layer;
    return layers * tokens * e * m->hidden / (high ? 1 : t) + (high ? layer : 0);
}

/* A shape for a model of which only the number of parameters is known: 12 L h^2 of them, with h =
 * ratio * L. The ratio of published models is 40 (small ones) to 130. */
static struct model_shape assumed_shape(const struct model_shape *m, double ratio, int head_dim,
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

static void set_activations(struct estimate *s, const struct model_shape *few,
                            const struct model_shape *many)
{
    const struct estimate_opts *o = &s->o;
    double low = fmin(activation_bytes(o, few, false), activation_bytes(o, many, false));
    double high = fmax(activation_bytes(o, few, true), activation_bytes(o, many, true));
    struct layer_bytes a = layer_bytes(o, few, false), b = layer_bytes(o, few, true);
    double h = few->hidden, e = o->precision == ESTIMATE_FP32 ? 4 : 2;
    const char *layers = o->pp > 1 ? "L / pp (a late stage) to L (the first one)" : "L";
    char each[64], pair[64] = "";
    range(each, sizeof each, (a.each + a.divided) / h, (b.each + b.divided) / h);
    if (b.pair > 0)
        snprintf(pair, sizeof pair, " + %.4g a s / h", b.pair / few->heads);
    if (o->recompute)
        estimate_set(s, ESTIMATE_ACTIVATIONS, low, high, "%s x %g s b h + 0 to 1 x s b h (%s%s)",
                     layers, e, each, pair);
    else
        estimate_set(s, ESTIMATE_ACTIVATIONS, low, high, "%s x s b h (%s%s)%s", layers, each, pair,
                     o->tp > 1 ? ", all or a part of it / t" : "");
}

static void set_logits(struct estimate *s, int vocab_low, int vocab_high)
{
    const struct estimate_opts *o = &s->o;
    double tokens = (double)o->batch * o->seq / o->tp;
    double least = o->pp > 1 ? 0 : o->precision == ESTIMATE_FP32 ? 8 : 4, most = 8;
    char width[32];
    range(width, sizeof width, least, most);
    if (o->model.no_logits)
        estimate_set(s, ESTIMATE_LOGITS, 0, 0, "0: the model has no output over a vocabulary");
    else
        estimate_set(s, ESTIMATE_LOGITS, least * tokens * vocab_low, most * tokens * vocab_high,
                     "%s s b V%s: logits and their gradient", width, o->tp > 1 ? " / t" : "");
    const struct estimate_part *a = &s->part[ESTIMATE_ACTIVATIONS], *l = &s->part[ESTIMATE_LOGITS];
    estimate_set(s, ESTIMATE_FRAGMENTATION, 0.05 * (double)(a->low_bytes + l->low_bytes),
                 0.2 * (double)(a->high_bytes + l->high_bytes),
                 "5 %% to 20 %% of activations and logits");
}

/* ---- what is not part of the model ---------------------------------------------------------- */

void estimate_runtime(struct estimate *s, double params)
{
    const struct estimate_opts *o = &s->o;
    double nccl = 64 << 20, most = 4 * nccl, g = o->precision == ESTIMATE_FP32 ? 4 : 2;
    int n = estimate_data_ranks(o);
    if (o->ranks == 1)
        estimate_set(s, ESTIMATE_COLLECTIVE_BUFFERS, 0, 0, "0: one rank");
    else if (n == 1)
        estimate_set(s, ESTIMATE_COLLECTIVE_BUFFERS, nccl, most, "NCCL: 64 to 256 MiB");
    else if (o->zero == 0)
        estimate_set(s, ESTIMATE_COLLECTIVE_BUFFERS, nccl, most + g * params,
                     "NCCL: 64 to 256 MiB; DDP: 0 to %g P (buckets)", g);
    else
        estimate_set(s, ESTIMATE_COLLECTIVE_BUFFERS, nccl, most + 2 * g * fmin(params, BUCKET),
                     "NCCL: 64 to 256 MiB; ZeRO: 0 to 2 x %g x min(P, %g) (buckets)", g, BUCKET);
    estimate_set(s, ESTIMATE_CUDA_CONTEXT, 0.3 * ESTIMATE_GIB, 2 * ESTIMATE_GIB,
                 "0.3 to 2 GiB: driver, kernels, libraries");
}

void estimate_transformer(struct estimate *s)
{
    struct estimate_opts *o = &s->o;
    struct model_shape few = o->model, many = o->model;
    if (o->model.kind == MODEL_PARAMS_ONLY) {
        few = assumed_shape(&o->model, 160, 128, 32000); /* few wide layers */
        many = assumed_shape(&o->model, 40, 64, 128000);
        if (!o->model.largest_layer)
            o->model.largest_layer = few.largest_layer;
    }
    struct widths w = widths(o);
    double low, high;
    rank_params(o, &low, &high);
    set_parameters(s, &w, low, high);
    set_gradients(s, &w, low, high);
    set_optimizer(s, &w, low, high);
    set_activations(s, &few, &many);
    set_logits(s, few.vocab, many.vocab);
    estimate_runtime(s, high);
}
