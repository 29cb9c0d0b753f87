#include <math.h>
#include <stdio.h>

#include "launcher/estimate/estimate_internal.h"

/* Formulas and sources are in docs/drover-estimate.md. Symbols are those of the papers: P
 * parameters of a rank, T those that are trained, N ranks with the same part. */

/* Bytes per parameter. */
struct widths {
    double weight_low, weight, weight_high, gradient;
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
    struct widths w = {2, 2, 2, .gradient = 2, .copy = 4};
    w.state = states[o->optimizer];
    if (o->precision == ESTIMATE_FP32)
        w = (struct widths){4, 4, 4, 4, 0, w.state};
    if (o->precision == ESTIMATE_FP8) {
        w.weight_low = 1;
        w.weight = 3;
        w.weight_high = 4; /* weights in 16 bit, and their 8-bit copies, also transposed */
    }
    if (o->no_master) {
        w.copy = 0;
        w.state = o->optimizer == ESTIMATE_ADAM_8BIT ? w.state : w.state / 2;
    }
    return w;
}

/* ---- numbers of parameters ------------------------------------------------------------------ */

/* Parameters of LoRA: for a matrix of in x out, rank x (in + out). */
static double lora_params(const struct estimate_opts *o)
{
    const struct model_shape *m = &o->model;
    double h = m->hidden, q = (double)m->heads * m->head_dim,
           kv = (double)m->kv_heads * m->head_dim;
    double f = m->intermediate, n = m->layers;
    const struct {
        unsigned bit;
        double sides; /* in + out */
        bool there;
    } rows[] = {
        {ESTIMATE_LORA_Q, h + q, true},
        {ESTIMATE_LORA_K, h + kv, true},
        {ESTIMATE_LORA_V, h + kv, true},
        {ESTIMATE_LORA_O, q + h, true},
        {ESTIMATE_LORA_GATE | ESTIMATE_LORA_ANY_GATE, h + f, m->gated},
        {ESTIMATE_LORA_UP, h + f, true},
        {ESTIMATE_LORA_DOWN, f + h, true},
    };
    double sum = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        sum += (o->lora_targets & rows[i].bit) && rows[i].there ? rows[i].sides : 0;
    return n * o->lora_rank * sum;
}

double estimate_trainable(const struct estimate_opts *o)
{
    return o->trainable   ? (double)o->trainable
           : o->lora_rank ? lora_params(o)
                          : (double)o->model.params;
}

static bool frozen(const struct estimate_opts *o)
{
    return o->trainable || o->lora_rank;
}

const char *estimate_symbol(const struct estimate_opts *o)
{
    return frozen(o) ? "T" : "P";
}

/* Parameters of a rank: the smallest and the largest. */
struct counts {
    double low, high;
};

/* The first and the last stage of a pipeline have the embeddings. `ep`: with expert parallelism. */
static struct counts rank_params(const struct estimate_opts *o, bool ep)
{
    const struct model_shape *m = &o->model;
    double parts = (double)o->tp * o->pp;
    struct counts c = {(double)m->params / parts, (double)m->params / parts};
    if (o->pp > 1 && m->kind != MODEL_PARAMS_ONLY)
        c.high = (ceil((double)m->layers / o->pp) * (double)model_shape_layer_params(m) +
                  (double)model_shape_outer_params(m)) /
                 o->tp;
    if (ep && o->ep > 1) {
        double experts = (double)model_shape_expert_layers(m) * m->experts * (m->gated ? 3 : 2) *
                         m->hidden * m->expert_width / parts * (1 - 1.0 / o->ep);
        c.low = fmax(0, c.low - experts);
        c.high = fmax(c.low, c.high - experts);
    }
    return c;
}

/* Those of them that are trained. */
static struct counts trained(const struct estimate_opts *o, struct counts c)
{
    double share = estimate_trainable(o) / (double)o->model.params;
    return frozen(o) ? (struct counts){share * c.low, share * c.high} : c;
}

/* ---- the parts ------------------------------------------------------------------------------ */

/* Bytes of a frozen parameter: as the files have it; or in the layers as config.json says, or with
 * --qlora 4 bit and a scale for 64 weights, and 16 bit outside of them. */
static double frozen_width(const struct estimate_opts *o, const struct widths *w)
{
    const struct model_shape *m = &o->model;
    if (m->stored_bytes > 0 && !m->stored_layers)
        return m->stored_bytes;
    if (m->stored_bytes <= 0 && (!o->four_bit || m->kind == MODEL_PARAMS_ONLY))
        return o->four_bit ? 0.6 : w->weight;
    double layers = fmin(1, (double)model_shape_layers_params(m) / (double)m->params);
    return (m->stored_bytes > 0 ? m->stored_bytes : 0.52) * layers + 2 * (1 - layers);
}

static void set_frozen(struct estimate *s, const struct widths *w, struct counts all,
                       struct counts some)
{
    const struct estimate_opts *o = &s->o;
    double n = o->zero == 3 ? estimate_equal_ranks(o) : 1, f = frozen_width(o, w);
    double live = o->zero == 3 ? 2 * (double)o->model.largest_layer / o->tp : 0;
    double low = (f * all.low + w->weight_low * some.low) / n + live;
    double high = (f * all.high + w->weight_high * some.high) / n + 2 * live;
    if (o->four_bit || o->model.stored_bytes > 0)
        high += 2 * (double)o->model.largest_layer / o->tp; /* in 16 bit, for its product */
    char largest[64] = "";
    if (o->zero == 3)
        snprintf(largest, sizeof largest, "; / N + 2 to 4 x %.0f, the largest layer", live / 2);
    estimate_set_part(s, ESTIMATE_PARAMETERS, (struct estimate_range){low, low, high},
                      "%.3g P, frozen, and %g T%s", f, w->weight, largest);
}

static void set_parameters(struct estimate *s, const struct widths *w, struct counts own,
                           struct counts all)
{
    const struct estimate_opts *o = &s->o;
    double n = estimate_equal_ranks(o), layer = (double)o->model.largest_layer / o->tp;
    double low = w->weight_low * layer, high = 2 * w->weight_high * layer;
    char weight[32], live[32];
    estimate_range_text(weight, sizeof weight, w->weight_low, w->weight_high);
    estimate_range_text(live, sizeof live, w->weight_low, 2 * w->weight_high);
    if (o->zero < 3)
        estimate_set_part(s, ESTIMATE_PARAMETERS,
                          (struct estimate_range){w->weight_low * own.low, w->weight * own.high,
                                                  w->weight_high * own.high},
                          "%s P", weight);
    else if (o->offload_params)
        estimate_set_part(s, ESTIMATE_PARAMETERS, (struct estimate_range){low, high, high},
                          "%s x %.0f, the largest layer; the others are in host memory", live,
                          layer);
    else
        estimate_set_part(s, ESTIMATE_PARAMETERS,
                          (struct estimate_range){w->weight_low * all.low / n + low,
                                                  w->weight * all.high / n + high,
                                                  w->weight_high * all.high / n + high},
                          "%s P / N + %s x %.0f, the largest layer", weight, live, layer);
}

/* With ZeRO, `c` P / N is an fp32 copy of the own part; without, gradients may be fp32. What a
 * lower stage needs suffices for a higher one, too. */
static struct estimate_range gradient_range(const struct estimate_opts *o, double g, double c,
                                            struct counts own, struct counts all)
{
    double n = estimate_equal_ranks(o), most = fmax(g, c);
    double layer = (double)o->model.largest_layer / o->tp;
    const struct estimate_range stages[] = {
        {g * own.low, most * own.low, most * own.high},
        {g * own.low, g * own.low, g * own.high + c * all.high / n},
        {g * all.low / n, (g + c) * all.low / n, g * own.high + c * all.high / n},
        {g * all.low / n, most * all.low / n, most * all.high / n},
    };
    struct estimate_range r = {g * layer, g * layer, most * layer};
    r = o->fused_step ? r : stages[0];
    for (int i = 0; i <= o->zero; i++) {
        r.low = fmin(r.low, stages[i].low);
        r.expected = fmin(r.expected, stages[i].expected);
        r.high = fmin(r.high, stages[i].high);
    }
    return r;
}

static void set_gradients(struct estimate *s, const struct widths *w, struct counts own,
                          struct counts all)
{
    const struct estimate_opts *o = &s->o;
    double g = w->gradient, c = w->copy;
    const char *p = estimate_symbol(o);
    char both[32], share[48] = "";
    estimate_range_text(both, sizeof both, g, fmax(g, c));
    if (c > 0)
        snprintf(share, sizeof share, " + %g %s / N, at most %g %s", c, p, c, p);
    if (o->offload && o->zero >= 2)
        estimate_set_part(s, ESTIMATE_GRADIENTS, (struct estimate_range){0, 0, 0},
                          "0: in host memory");
    else if (o->fused_step)
        estimate_set_part(s, ESTIMATE_GRADIENTS, gradient_range(o, g, c, own, all),
                          "%s x the largest layer: the optimizer steps at once", both);
    else if (o->zero == 0 || o->zero == 3)
        estimate_set_part(s, ESTIMATE_GRADIENTS, gradient_range(o, g, c, own, all), "%s %s%s", both,
                          p, o->zero == 0 ? "" : " / N");
    else
        estimate_set_part(s, ESTIMATE_GRADIENTS, gradient_range(o, g, c, own, all),
                          "%g %s%s to %g %s%s", g, p, o->zero == 2 ? " / N" : "", g, p, share);
}

/* Host memory that offloading needs, with DeepSpeed's factor of 1.5 for buffers. */
static void set_host(struct estimate *s, const struct widths *w, struct counts c, double n)
{
    double all = w->state + w->copy + fmax(w->copy, w->gradient);
    all += s->o.offload_params ? w->weight_low : 0;
    s->host_bytes = (uint64_t)fmin(1.5 * all * c.high / n, 0x1p59);
    estimate_set_part(s, ESTIMATE_OPTIMIZER_STATE, (struct estimate_range){0, 0, 0},
                      "0: in host memory");
    estimate_set_part(s, ESTIMATE_MASTER_WEIGHTS, (struct estimate_range){0, 0, 0},
                      "0: in host memory");
}

static void set_optimizer(struct estimate *s, const struct widths *w, struct counts c)
{
    const struct estimate_opts *o = &s->o;
    double n = o->zero ? estimate_equal_ranks(o) : 1;
    const char *p = estimate_symbol(o), *share = o->zero ? " / N" : "";
    if (o->offload) {
        set_host(s, w, c, n);
        return;
    }
    if (o->optimizer == ESTIMATE_ADAFACTOR)
        estimate_set_part(s, ESTIMATE_OPTIMIZER_STATE,
                          (struct estimate_range){0, 0.005 * c.high / n, 0.01 * c.high / n},
                          "0 to 0.01 %s%s: rows and columns of each matrix", p, share);
    else if (o->paged) {
        s->host_bytes = (uint64_t)fmin(w->state * c.high / n, 0x1p58);
        estimate_set_part(s, ESTIMATE_OPTIMIZER_STATE, (struct estimate_range){0, 0, 0},
                          "0: in pages that move to host memory when the GPU is full");
    } else
        estimate_set_part(s, ESTIMATE_OPTIMIZER_STATE,
                          (struct estimate_range){w->state * c.low / n, w->state * c.low / n,
                                                  w->state * c.high / n},
                          "%g %s%s", w->state, p, share);
    estimate_set_part(
        s, ESTIMATE_MASTER_WEIGHTS,
        (struct estimate_range){w->copy * c.low / n, w->copy * c.low / n, w->copy * c.high / n},
        "%g %s%s", w->copy, p, share);
}

/* PyTorch's foreach implementation of Adam has a list of temporaries, as large as the gradients. */
static void set_temporaries(struct estimate *s, const struct widths *w, struct counts c)
{
    const struct estimate_opts *o = &s->o;
    double n = o->zero ? estimate_equal_ranks(o) : 1, each = o->no_master ? 2 : 4;
    bool adam = o->optimizer == ESTIMATE_ADAM || o->optimizer == ESTIMATE_ADAMW;
    if (!adam || o->fused_step || o->offload || w->state <= 0)
        estimate_set_part(s, ESTIMATE_TEMPORARIES, (struct estimate_range){0, 0, 0}, "0");
    else
        estimate_set_part(
            s, ESTIMATE_TEMPORARIES,
            (struct estimate_range){0, o->foreach ? each * c.low / n : 0, each * c.high / n},
            "0 (fused) to %g %s%s (foreach)", each, estimate_symbol(o), o->zero ? " / N" : "");
}

void estimate_states(struct estimate *s)
{
    const struct estimate_opts *o = &s->o;
    struct widths w = widths(o);
    struct counts own = rank_params(o, true), all = rank_params(o, false);
    struct counts t = trained(o, own), t_all = trained(o, all);
    if (frozen(o))
        set_frozen(s, &w, own, t);
    else
        set_parameters(s, &w, own, all);
    set_gradients(s, &w, t, t_all);
    set_optimizer(s, &w, o->zero ? t_all : t);
    set_temporaries(s, &w, o->zero ? t_all : t);
}
