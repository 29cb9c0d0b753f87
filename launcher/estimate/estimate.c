#include "launcher/estimate/estimate.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/opt.h"
#include "common/plural.h"
#include "launcher/jobs/history_jobs.h"

enum { BATCH_MAX = 1 << 20, SEQ_MAX = 1 << 24, RANKS_MAX = 1 << 20 };

/* ---- words ---------------------------------------------------------------------------------- */

static const char *const precisions[ESTIMATE_PRECISIONS] = {"fp32", "bf16", "fp16", "fp8"};
static const char *const optimizers[ESTIMATE_OPTIMIZERS] = {
    "sgd", "momentum", "adam", "adamw", "adam8bit", "adafactor", "lion"};
static const char *const parts[ESTIMATE_PARTS] = {
    "parameters", "gradients",          "optimizer state", "master weights", "activations",
    "logits",     "collective buffers", "CUDA context",    "fragmentation"};

static int find(const char *const *words, size_t n, const char *what, const char *text,
                struct err *e)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(words[i], text) == 0)
            return (int)i;
    const char *near = opt_suggest(text, words, n);
    err_set(e, -EINVAL, "unknown %s '%s'", what, text);
    return err_hint(e, "%s", near ? near : words[1]);
}

int estimate_precision_parse(enum estimate_precision *out, const char *text, struct err *e)
{
    int i = find(precisions, ESTIMATE_PRECISIONS, "precision", text, e);
    if (i >= 0)
        *out = (enum estimate_precision)i;
    return i < 0 ? i : 0;
}

int estimate_optimizer_parse(enum estimate_optimizer *out, const char *text, struct err *e)
{
    int i = find(optimizers, ESTIMATE_OPTIMIZERS, "optimizer", text, e);
    if (i >= 0)
        *out = (enum estimate_optimizer)i;
    return i < 0 ? i : 0;
}

const char *estimate_precision_name(enum estimate_precision p)
{
    return precisions[p];
}

const char *estimate_optimizer_name(enum estimate_optimizer o)
{
    return optimizers[o];
}

const char *estimate_part_name(enum estimate_part_kind k)
{
    return parts[k];
}

const char *estimate_verdict_text(enum estimate_verdict v)
{
    return v == ESTIMATE_FITS ? "fits" : v == ESTIMATE_CLOSE ? "close" : "does not fit";
}

/* ---- options -------------------------------------------------------------------------------- */

struct estimate_opts estimate_opts_default(void)
{
    return (struct estimate_opts){
        .batch = 1, .precision = ESTIMATE_BF16, .optimizer = ESTIMATE_ADAMW, .tp = 1, .pp = 1};
}

int estimate_data_ranks(const struct estimate_opts *o)
{
    return o->ranks / (o->tp * o->pp);
}

static int check_ranges(const struct estimate_opts *o, struct err *e)
{
    const struct {
        const char *name;
        int value, min, max;
    } rows[] = {
        {"batch", o->batch, 1, BATCH_MAX},           {"sequence length", o->seq, 1, SEQ_MAX},
        {"ranks", o->ranks, 1, RANKS_MAX},           {"tensor parallelism", o->tp, 1, 1 << 10},
        {"pipeline parallelism", o->pp, 1, 1 << 10}, {"ZeRO stage", o->zero, 0, 3},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].value < rows[i].min || rows[i].value > rows[i].max)
            return err_set(e, -ERANGE, "%s: %d is not in %d to %d", rows[i].name, rows[i].value,
                           rows[i].min, rows[i].max);
    return 0;
}

static int check_combination(const struct estimate_opts *o, struct err *e)
{
    bool shape = o->model.kind != MODEL_PARAMS_ONLY;
    if (o->ranks % (o->tp * o->pp) != 0)
        return err_set(e, -EINVAL, "%d rank%s: not a multiple of %d x %d (tensor x pipeline)",
                       o->ranks, plural_s(o->ranks), o->tp, o->pp);
    if (shape && o->model.heads % o->tp != 0)
        return err_set(e, -EINVAL, "tensor parallelism %d: the model has %d heads", o->tp,
                       o->model.heads);
    if (shape && o->pp > o->model.layers)
        return err_set(e, -EINVAL, "pipeline parallelism %d: the model has %d layers", o->pp,
                       o->model.layers);
    if (o->no_master && o->precision == ESTIMATE_FP32)
        return err_set(e, -EINVAL, "fp32: has no master weights that could be left out");
    if (o->offload_params && (!o->offload || o->zero < 3))
        return err_set(e, -EINVAL,
                       "parameters in host memory need ZeRO stage 3 and the optimizer "
                       "state in host memory");
    return 0;
}

static int complete(struct estimate_opts *o, struct err *e)
{
    if (model_shape_complete(&o->model, e) < 0)
        return err_wrap(e, "model");
    int context = o->model.context;
    if (!o->seq)
        o->seq = context && context < ESTIMATE_SEQ_MAX ? context : ESTIMATE_SEQ_MAX;
    if (!o->ranks && o->tp > 0 && o->pp > 0)
        o->ranks = o->tp * o->pp;
    int rc = check_ranges(o, e);
    rc = rc < 0 ? rc : check_combination(o, e);
    if (rc == 0 && o->model.positions && context && o->seq > context)
        return err_set(e, -EINVAL, "sequence length %d: the model has %d positions", o->seq,
                       context);
    return rc;
}

/* ---- what does not depend on the batch ------------------------------------------------------ */

/* Formulas and sources are in docs/drover-estimate.md. Symbols are those of the papers: P
 * parameters of a rank, N data-parallel ranks, L layers, s tokens, b sequences, h width, a heads, f
 * width of the MLP, t tensor-parallel ranks, V vocabulary. */

/* Sets a part, in bytes, with the text of its formula. */
__attribute__((format(printf, 5, 6))) static void set_part(struct estimate *s,
                                                           enum estimate_part_kind k, double low,
                                                           double high, const char *fmt, ...)
{
    struct estimate_part *p = &s->part[k];
    /* Above 2^62 bytes the exact number does not matter; the sum of all parts must not overflow. */
    p->low_bytes = (uint64_t)fmin(low, 0x1p59);
    p->high_bytes = (uint64_t)fmin(high, 0x1p59);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p->formula, sizeof p->formula, fmt, ap);
    va_end(ap);
}

/* DeepSpeed's default size of a bucket for reduction, in elements. */
static const double BUCKET = 5e8;

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
        set_part(s, ESTIMATE_PARAMETERS, w->weight_low * low, w->weight_high * high, "%s P",
                 weight);
    else if (o->offload_params)
        set_part(s, ESTIMATE_PARAMETERS, live_low, live_high,
                 "%s x %.0f, the largest layer; the others are in host memory", live, layer);
    else
        set_part(s, ESTIMATE_PARAMETERS, w->weight_low * low / n + live_low,
                 w->weight_high * high / n + live_high, "%s P / N + %s x %.0f, the largest layer",
                 weight, live, layer);
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
        set_part(s, k, 0, 0, "0: in host memory");
    else if (s->o.zero == 0)
        set_part(s, k, g * low, fmax(g, c) * high, "%s P", both);
    else if (s->o.zero == 1)
        set_part(s, k, g * low, g * high + c * high / n, "%g P to %g P%s", g, g, own);
    else if (s->o.zero == 2)
        set_part(s, k, g * low / n, g * high + c * high / n, "%g P / N to %g P%s", g, g, own);
    else
        set_part(s, k, g * low / n, fmax(g, c) * high / n, "%s P / N", both);
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
        set_part(s, ESTIMATE_OPTIMIZER_STATE, 0, 0, "0: in host memory");
        set_part(s, ESTIMATE_MASTER_WEIGHTS, 0, 0, "0: in host memory");
        return;
    }
    if (o->optimizer == ESTIMATE_ADAFACTOR)
        set_part(s, ESTIMATE_OPTIMIZER_STATE, 0, 0.01 * high / n,
                 "0 to 0.01 P%s: rows and columns of each matrix", share);
    else
        set_part(s, ESTIMATE_OPTIMIZER_STATE, w->state * low / n, w->state * high / n, "%g P%s",
                 w->state, share);
    set_part(s, ESTIMATE_MASTER_WEIGHTS, w->copy * low / n, w->copy * high / n, "%g P%s", w->copy,
             share);
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
        set_part(s, ESTIMATE_ACTIVATIONS, low, high, "%s x %g s b h + 0 to 1 x s b h (%s%s)",
                 layers, e, each, pair);
    else
        set_part(s, ESTIMATE_ACTIVATIONS, low, high, "%s x s b h (%s%s)%s", layers, each, pair,
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
        set_part(s, ESTIMATE_LOGITS, 0, 0, "0: the model has no output over a vocabulary");
    else
        set_part(s, ESTIMATE_LOGITS, least * tokens * vocab_low, most * tokens * vocab_high,
                 "%s s b V%s: logits and their gradient", width, o->tp > 1 ? " / t" : "");
    const struct estimate_part *a = &s->part[ESTIMATE_ACTIVATIONS], *l = &s->part[ESTIMATE_LOGITS];
    set_part(s, ESTIMATE_FRAGMENTATION, 0.05 * (double)(a->low_bytes + l->low_bytes),
             0.2 * (double)(a->high_bytes + l->high_bytes),
             "5 %% to 20 %% of activations and logits");
}

/* ---- what is not part of the model ---------------------------------------------------------- */

static void set_runtime(struct estimate *s, double params)
{
    const struct estimate_opts *o = &s->o;
    double nccl = 64 << 20, most = 4 * nccl, g = o->precision == ESTIMATE_FP32 ? 4 : 2;
    int n = estimate_data_ranks(o);
    if (o->ranks == 1)
        set_part(s, ESTIMATE_COLLECTIVE_BUFFERS, 0, 0, "0: one rank");
    else if (n == 1)
        set_part(s, ESTIMATE_COLLECTIVE_BUFFERS, nccl, most, "NCCL: 64 to 256 MiB");
    else if (o->zero == 0)
        set_part(s, ESTIMATE_COLLECTIVE_BUFFERS, nccl, most + g * params,
                 "NCCL: 64 to 256 MiB; DDP: 0 to %g P (buckets)", g);
    else
        set_part(s, ESTIMATE_COLLECTIVE_BUFFERS, nccl, most + 2 * g * fmin(params, BUCKET),
                 "NCCL: 64 to 256 MiB; ZeRO: 0 to 2 x %g x min(P, %g) (buckets)", g, BUCKET);
    set_part(s, ESTIMATE_CUDA_CONTEXT, 0.3 * ESTIMATE_GIB, 2 * ESTIMATE_GIB,
             "0.3 to 2 GiB: driver, kernels, libraries");
}

static void set_parts(struct estimate *s)
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
    set_runtime(s, high);
}

/* ---- the estimate --------------------------------------------------------------------------- */

int estimate_job(struct estimate *out, const struct estimate_opts *o, struct err *e)
{
    struct estimate s = {.o = *o};
    int rc = complete(&s.o, e);
    if (rc < 0)
        return rc;
    set_parts(&s);
    for (int k = 0; k < ESTIMATE_PARTS; k++) {
        s.low_bytes += s.part[k].low_bytes;
        s.high_bytes += s.part[k].high_bytes;
    }
    *out = s;
    return 0;
}

enum estimate_verdict estimate_verdict(const struct estimate *s, uint64_t gpu_bytes)
{
    return s->high_bytes <= gpu_bytes  ? ESTIMATE_FITS
           : s->low_bytes <= gpu_bytes ? ESTIMATE_CLOSE
                                       : ESTIMATE_DOES_NOT_FIT;
}

/* ---- measured peaks ------------------------------------------------------------------------- */

/* A repeated job differs by a few percent: caches of libraries, the allocator's blocks. */
static const double SPREAD = 0.03;

static bool counts(const struct history_job *p)
{
    return p->batch >= 1 && p->batch <= INT_MAX && p->peak_bytes > 0;
}

static struct estimate_fit fit(const struct history_job *peaks, size_t n)
{
    struct estimate_fit l = {0};
    double x = 0, xx = 0, xy = 0;
    for (size_t i = 0; i < n; i++) {
        if (!counts(&peaks[i]))
            continue;
        l.first = l.n++ == 0 ? (int)peaks[i].batch : l.first;
        l.several |= peaks[i].batch != l.first;
        x += (double)peaks[i].batch;
        l.mean += (double)peaks[i].peak_bytes;
    }
    if (l.n == 0)
        return l;
    x /= l.n;
    l.mean /= l.n;
    for (size_t i = 0; i < n; i++) {
        if (!counts(&peaks[i]))
            continue;
        double dx = (double)peaks[i].batch - x;
        xx += dx * dx;
        xy += dx * ((double)peaks[i].peak_bytes - l.mean);
    }
    l.b = xx > 0 ? fmax(0, xy / xx) : 0; /* memory does not fall with the batch */
    l.a = l.mean - l.b * x;
    for (size_t i = 0; i < n; i++)
        if (counts(&peaks[i]))
            l.worst = fmax(l.worst,
                           fabs((double)peaks[i].peak_bytes - l.a - l.b * (double)peaks[i].batch));
    return l;
}

static void set_range(struct estimate *s, double low, double high, double worst)
{
    s->low_bytes = (uint64_t)fmax(0, fmin(low - worst, low * (1 - SPREAD)));
    s->high_bytes = (uint64_t)fmin(0x1p62, fmax(high + worst, high * (1 + SPREAD)));
}

/* One batch size: the formula says how memory changes with the batch, as a ratio and as a
 * difference, at both of its ends. It does not change by more than the batch, and never falls. */
static void extrapolate(struct estimate *s, const struct estimate_fit *l)
{
    struct estimate there;
    struct estimate_opts o = s->o;
    o.batch = l->first;
    if (estimate_job(&there, &o, NULL) < 0)
        return;
    double ends[2][2] = {{(double)there.low_bytes, (double)s->low_bytes},
                         {(double)there.high_bytes, (double)s->high_bytes}};
    double all = l->mean * s->o.batch / l->first; /* as if all of it grew with the batch */
    double least = fmax(l->mean, all), most = fmin(l->mean, all);
    for (int i = 0; i < 2; i++) {
        double ratio = l->mean * ends[i][1] / ends[i][0];
        double difference = l->mean + ends[i][1] - ends[i][0];
        least = fmin(least, fmin(ratio, difference));
        most = fmax(most, fmax(ratio, difference));
    }
    set_range(s, fmax(least, fmin(l->mean, all)), fmin(most, fmax(l->mean, all)), l->worst);
}

void estimate_apply(struct estimate *s, const struct estimate_fit *l)
{
    if (l->several) {
        double y = l->a + l->b * s->o.batch;
        set_range(s, y, y, l->worst);
        snprintf(s->correction, sizeof s->correction,
                 "least squares over %d measured peaks: %.2f GiB + %.3f GiB x batch", l->n,
                 l->a / ESTIMATE_GIB, l->b / ESTIMATE_GIB);
    } else {
        extrapolate(s, l);
        snprintf(s->correction, sizeof s->correction, "measured: %.1f GiB at batch %d%s",
                 l->mean / ESTIMATE_GIB, l->first,
                 l->first == s->o.batch ? "" : ", changed as the formula changes with the batch");
    }
    s->measured = *l;
}

void estimate_correct(struct estimate *s, const struct history_job *peaks, size_t n)
{
    struct estimate_fit l = fit(peaks, n);
    if (l.n > 0)
        estimate_apply(s, &l);
}
