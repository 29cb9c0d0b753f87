#include "launcher/estimate/estimate.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/opt.h"
#include "common/plural.h"
#include "common/strbuf.h"
#include "launcher/estimate/estimate_internal.h"

enum { BATCH_MAX = 1 << 20, SEQ_MAX = 1 << 24, RANKS_MAX = 1 << 20 };

/* ---- words ---------------------------------------------------------------------------------- */

static const char *const precisions[ESTIMATE_PRECISIONS] = {"fp32", "bf16", "fp16", "fp8"};
static const char *const optimizers[ESTIMATE_OPTIMIZERS] = {
    "sgd", "momentum", "adam", "adamw", "adam8bit", "adafactor", "lion"};
static const char *const parts[ESTIMATE_PARTS] = {
    "parameters",         "gradients",    "optimizer state", "master weights",
    "activations",        "one layer",    "logits",          "temporaries",
    "collective buffers", "CUDA context", "fragmentation"};
static const char *const losses[ESTIMATE_LOSSES] = {"eager", "chunked", "fused"};
static const char *const phases[ESTIMATE_PHASES] = {"forward", "backward", "optimizer step"};

/* Names of Transformers' --optim. */
static const struct optim {
    const char *name;
    enum estimate_optimizer optimizer;
    bool paged, foreach;
} optims[] = {
    {.name = "adamw_torch", .optimizer = ESTIMATE_ADAMW, .foreach = true},
    {.name = "adamw_torch_fused", .optimizer = ESTIMATE_ADAMW},
    {.name = "adamw_hf", .optimizer = ESTIMATE_ADAMW},
    {.name = "adamw_apex_fused", .optimizer = ESTIMATE_ADAMW},
    {.name = "adamw_anyprecision", .optimizer = ESTIMATE_ADAMW},
    {.name = "adamw_8bit", .optimizer = ESTIMATE_ADAM_8BIT},
    {.name = "adamw_bnb_8bit", .optimizer = ESTIMATE_ADAM_8BIT},
    {.name = "adamw_torch_8bit", .optimizer = ESTIMATE_ADAM_8BIT},
    {.name = "paged_adamw", .optimizer = ESTIMATE_ADAMW, .paged = true},
    {.name = "paged_adamw_32bit", .optimizer = ESTIMATE_ADAMW, .paged = true},
    {.name = "paged_adamw_8bit", .optimizer = ESTIMATE_ADAM_8BIT, .paged = true},
    {.name = "lion_32bit", .optimizer = ESTIMATE_LION},
    {.name = "paged_lion_32bit", .optimizer = ESTIMATE_LION, .paged = true},
    {.name = "rmsprop", .optimizer = ESTIMATE_MOMENTUM},
    {.name = "adagrad", .optimizer = ESTIMATE_MOMENTUM},
};

static int find(const char *const *words, size_t n, const char *what, const char *text,
                struct err *e)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(words[i], text) == 0)
            return (int)i;
    const char *near = opt_suggest(text, words, n);
    AUTO(strbuf) struct strbuf all = {0};
    for (size_t i = 0; i < n; i++)
        strbuf_printf(&all, "%s%s", i ? ", " : "", words[i]);
    err_set(e, -EINVAL, "unknown %s '%s'", what, text);
    return err_hint(e, "%s", near ? near : strbuf_str(&all));
}

int estimate_precision_parse(enum estimate_precision *out, const char *text, struct err *e)
{
    int i = find(precisions, ESTIMATE_PRECISIONS, "precision", text, e);
    if (i >= 0)
        *out = (enum estimate_precision)i;
    return i < 0 ? i : 0;
}

int estimate_optim_parse(struct estimate_opts *o, const char *text, struct err *e)
{
    for (size_t i = 0; i < COUNT_OF(optims); i++)
        if (strcmp(optims[i].name, text) == 0) {
            o->optimizer = optims[i].optimizer;
            o->paged = optims[i].paged;
            o->foreach = optims[i].foreach;
            return 0;
        }
    int i = find(optimizers, ESTIMATE_OPTIMIZERS, "optimizer", text, e);
    if (i >= 0)
        o->optimizer = (enum estimate_optimizer)i;
    return i < 0 ? i : 0;
}

int estimate_loss_parse(enum estimate_loss *out, const char *text, struct err *e)
{
    int i = find(losses, ESTIMATE_LOSSES, "loss", text, e);
    if (i >= 0)
        *out = (enum estimate_loss)i;
    return i < 0 ? i : 0;
}

int estimate_recompute_parse(struct estimate_opts *o, const char *text, struct err *e)
{
    static const char *const words[] = {"none", "selective", "block"};
    int i = find(words, COUNT_OF(words), "recompute", text, e);
    if (i < 0)
        return i;
    o->selective = i == 1;
    o->recompute = i == 2;
    return 0;
}

const char *estimate_loss_name(enum estimate_loss l)
{
    return losses[l];
}

int estimate_lora_parse(unsigned *out, const char *text, struct err *e)
{
    static const char *const names[] = {"q",  "k",    "v",         "o",   "gate",
                                        "up", "down", "attention", "mlp", "all"};
    static const unsigned bits[] = {
        1, 2, 4, 8, 16, 32, 64, 15, ESTIMATE_LORA_MLP, ESTIMATE_LORA_ALL};
    char copy[128], *rest = copy;
    unsigned all = 0;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word; (word = strsep(&rest, ","));) {
        char *end = strstr(word, "_proj"); /* as PEFT writes it */
        if (end)
            *end = '\0';
        int i = find(names, COUNT_OF(names), "matrix", word, e);
        if (i < 0)
            return i;
        all |= bits[i];
    }
    *out = all;
    return 0;
}

const char *estimate_phase_name(enum estimate_phase_kind k)
{
    return phases[k];
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

int estimate_equal_ranks(const struct estimate_opts *o)
{
    return o->ranks / (o->tp * o->pp);
}

static int check_ranges(const struct estimate_opts *o, struct err *e)
{
    const struct {
        const char *name;
        int value, min, max;
    } rows[] = {
        {"batch", o->batch, 1, BATCH_MAX},
        {"sequence length", o->seq, 1, SEQ_MAX},
        {"ranks", o->ranks, 1, RANKS_MAX},
        {"tensor parallelism", o->tp, 1, 1 << 10},
        {"pipeline parallelism", o->pp, 1, 1 << 10},
        {"ZeRO stage", o->zero, 0, 3},
        {"context parallelism", o->cp, 1, 1 << 10},
        {"expert parallelism", o->ep, 1, 1 << 10},
        {"micro-batches", o->accumulate, 0, 1 << 20},
        {"LoRA's rank", o->lora_rank, 0, 1 << 14},
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
    int64_t part = (int64_t)o->tp * o->pp * o->cp;
    if (o->ranks % part != 0 && o->cp == 1)
        return err_set(e, -EINVAL, "%d rank%s: not a multiple of %d x %d (tensor x pipeline)",
                       o->ranks, plural_s(o->ranks), o->tp, o->pp);
    if (o->ranks % part != 0)
        return err_set(e, -EINVAL,
                       "%d rank%s: not a multiple of %d x %d x %d (tensor x pipeline x context)",
                       o->ranks, plural_s(o->ranks), o->tp, o->pp, o->cp);
    if (o->seq % o->cp != 0)
        return err_set(e, -EINVAL, "context parallelism %d: does not divide %d tokens", o->cp,
                       o->seq);
    if (o->ep > 1 &&
        (!shape || o->model.experts == 0 || o->model.experts % o->ep != 0 || o->ranks % o->ep != 0))
        return err_set(e, -EINVAL, "expert parallelism %d: %d experts, %d rank%s", o->ep,
                       o->model.experts, o->ranks, plural_s(o->ranks));
    if (o->lora_rank && !shape)
        return err_set(e, -EINVAL, "adapters need the shape of the model: its config.json");
    if (o->lora_rank && o->trainable)
        return err_set(e, -EINVAL,
                       "adapters of rank %d and %lld trained parameters: the rank gives their "
                       "number; remove one of the two",
                       o->lora_rank, (long long)o->trainable);
    if ((o->lora_targets & ESTIMATE_LORA_GATE) && shape && !o->model.gated) {
        err_set(e, -EINVAL, "adapters on 'gate': the MLP of the model has no such matrix");
        return err_hint(e, "of q, k, v, o, up, down");
    }
    if (o->trainable > o->model.params)
        return err_set(e, -ERANGE, "%lld trained parameters: the model has %lld",
                       (long long)o->trainable, (long long)o->model.params);
    if (shape && o->model.heads % o->tp != 0)
        return err_set(e, -EINVAL, "tensor parallelism %d: the model has %d head%s", o->tp,
                       o->model.heads, plural_s(o->model.heads));
    if (shape && o->pp > o->model.layers)
        return err_set(e, -EINVAL, "pipeline parallelism %d: the model has %d layer%s", o->pp,
                       o->model.layers, plural_s(o->model.layers));
    if (o->fused_step && o->accumulate > 1)
        return err_set(e, -EINVAL,
                       "%d micro-batches: an optimizer that steps in the backward pass steps after "
                       "each; remove one of the two",
                       o->accumulate);
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
    o->cp = o->cp ? o->cp : 1;
    o->ep = o->ep ? o->ep : 1;
    if (!o->ranks && o->tp > 0 && o->pp > 0 && o->cp > 0 && o->tp <= 1 << 10 && o->pp <= 1 << 10 &&
        o->cp <= 1 << 10)
        o->ranks = o->tp * o->pp * o->cp;
    o->lora_targets = o->lora_targets ? o->lora_targets : ESTIMATE_LORA_ALL;
    o->selective = o->selective && !o->recompute;
    if (o->model.tokens)
        o->seq = o->model.tokens;
    int rc = check_ranges(o, e);
    rc = rc < 0 ? rc : check_combination(o, e);
    if (rc == 0 && o->model.positions && context && o->seq > context)
        return err_set(e, -EINVAL, "sequence length %d: the model has %d positions", o->seq,
                       context);
    return rc;
}

/* ---- parts and phases ----------------------------------------------------------------------- */

void estimate_set_part(struct estimate *s, enum estimate_part_kind k, struct estimate_range r,
                       const char *fmt, ...)
{
    struct estimate_part *p = &s->part[k];
    /* Above 2^62 bytes the exact number does not matter; the sum of all parts must not overflow. */
    p->low_bytes = (uint64_t)fmin(r.low, 0x1p58);
    p->expected_bytes = (uint64_t)fmin(r.expected, 0x1p58);
    p->high_bytes = (uint64_t)fmin(r.high, 0x1p58);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p->formula, sizeof p->formula, fmt, ap);
    va_end(ap);
}

const char *estimate_range_text(char *buf, size_t size, double low, double high)
{
    snprintf(buf, size, low < high ? "%.4g to %.4g" : "%.4g", low, high);
    return buf;
}

double estimate_end(const struct estimate_part *p, int end)
{
    return (double)(end == 0 ? p->low_bytes : end == 1 ? p->expected_bytes : p->high_bytes);
}

/* In which phases a part exists; `some`: at the high end only. */
enum exists { NO, SOME, YES };
static const enum exists exists[ESTIMATE_PARTS][ESTIMATE_PHASES] = {
    [ESTIMATE_PARAMETERS] = {YES, YES, YES},
    [ESTIMATE_GRADIENTS] = {SOME, YES, YES}, /* of a micro-batch before, or set to zero */
    [ESTIMATE_OPTIMIZER_STATE] = {YES, YES, YES},
    [ESTIMATE_MASTER_WEIGHTS] = {YES, YES, YES},
    [ESTIMATE_ACTIVATIONS] = {YES, NO, NO},
    [ESTIMATE_ONE_LAYER] = {NO, YES, NO},
    [ESTIMATE_LOGITS] = {YES, NO, NO},
    [ESTIMATE_TEMPORARIES] = {NO, NO, YES},
    [ESTIMATE_COLLECTIVE_BUFFERS] = {YES, YES, YES},
    [ESTIMATE_CUDA_CONTEXT] = {YES, YES, YES},
    [ESTIMATE_FRAGMENTATION] = {YES, YES, YES},
};

static enum exists part_exists(const struct estimate_opts *o, enum estimate_phase_kind phase,
                               enum estimate_part_kind k)
{
    if (k == ESTIMATE_GRADIENTS && phase == ESTIMATE_FORWARD && o->accumulate)
        return o->accumulate > 1 ? YES : NO;
    if (k == ESTIMATE_PARAMETERS && phase == ESTIMATE_STEP && o->zero == 0 && !o->no_master &&
        o->precision != ESTIMATE_FP32 && !o->lora_rank && !o->trainable)
        return SOME; /* autocast drops its casts */
    return exists[k][phase];
}

static double phase_bytes(const struct estimate *s, enum estimate_phase_kind phase, int end)
{
    double sum = 0;
    for (int k = 0; k < ESTIMATE_PARTS; k++) {
        enum exists x = part_exists(&s->o, phase, k);
        if (x == YES || (x == SOME && end == 2))
            sum += estimate_end(&s->part[k], end);
    }
    return sum;
}

static void set_phases(struct estimate *s)
{
    for (int p = 0; p < ESTIMATE_PHASES; p++) {
        uint64_t bytes[3];
        for (int end = 0; end < 3; end++)
            bytes[end] = (uint64_t)phase_bytes(s, p, end);
        bytes[1] = bytes[1] < bytes[0] ? bytes[0] : bytes[1];
        s->phase[p] = (struct estimate_phase){bytes[0], bytes[1], bytes[2]};
        s->low_bytes = bytes[0] > s->low_bytes ? bytes[0] : s->low_bytes;
        s->expected_bytes = bytes[1] > s->expected_bytes ? bytes[1] : s->expected_bytes;
        s->high_bytes = bytes[2] > s->high_bytes ? bytes[2] : s->high_bytes;
    }
}

/* ---- what is not part of the model ---------------------------------------------------------- */

/* DeepSpeed's default size of a bucket for reduction, in elements. */
static const double BUCKET = 5e8;

static void set_runtime(struct estimate *s)
{
    const struct estimate_opts *o = &s->o;
    double nccl = 64 << 20, most = 4 * nccl, g = o->precision == ESTIMATE_FP32 ? 4 : 2;
    double params = fmax(estimate_trainable(o), 1) / (o->tp * o->pp);
    int n = estimate_equal_ranks(o);
    enum estimate_part_kind k = ESTIMATE_COLLECTIVE_BUFFERS;
    if (o->ranks == 1)
        estimate_set_part(s, k, (struct estimate_range){0, 0, 0}, "0: one rank");
    else if (n == 1)
        estimate_set_part(s, k, (struct estimate_range){nccl, 2 * nccl, most},
                          "NCCL: 64 to 256 MiB");
    else if (o->zero == 0)
        estimate_set_part(s, k,
                          (struct estimate_range){nccl, 2 * nccl + g * params, most + g * params},
                          "NCCL: 64 to 256 MiB; DDP: 0 to %g %s (buckets)", g, estimate_symbol(o));
    else
        estimate_set_part(s, k,
                          (struct estimate_range){nccl, 2 * nccl + g * fmin(params, BUCKET),
                                                  most + 2 * g * fmin(params, BUCKET)},
                          "NCCL: 64 to 256 MiB; ZeRO: 0 to 2 x %g x min(%s, %g) (buckets)", g,
                          estimate_symbol(o), BUCKET);
    estimate_set_part(
        s, ESTIMATE_CUDA_CONTEXT,
        (struct estimate_range){0.3 * ESTIMATE_GIB, 0.6 * ESTIMATE_GIB, 2 * ESTIMATE_GIB},
        "0.3 to 2 GiB: driver, kernels, libraries; 0.6 on an H100");
}

/* The allocator has free blocks that fit nothing: on an H100 2 to 17 % of the allocated memory,
 * most of it from tensors that come and go. */
static void set_fragmentation(struct estimate *s)
{
    double moving = 0, standing = 0;
    for (int k = 0; k <= ESTIMATE_TEMPORARIES; k++) {
        double high = (double)s->part[k].high_bytes;
        if (k == ESTIMATE_ACTIVATIONS || k == ESTIMATE_LOGITS)
            moving += high;
        else if (k < ESTIMATE_ACTIVATIONS)
            standing += high;
    }
    double expected = (double)s->part[ESTIMATE_ACTIVATIONS].expected_bytes +
                      (double)s->part[ESTIMATE_LOGITS].expected_bytes;
    estimate_set_part(s, ESTIMATE_FRAGMENTATION,
                      (struct estimate_range){0, 0.08 * expected, 0.2 * moving + 0.1 * standing},
                      "0 to 20 %% of activations and logits, and to 10 %% of the rest");
}

/* ---- the estimate --------------------------------------------------------------------------- */

int estimate_job(struct estimate *out, const struct estimate_opts *o, struct err *e)
{
    struct estimate s = {.o = *o};
    int rc = complete(&s.o, e);
    if (rc < 0)
        return rc;
    estimate_activations(&s);
    estimate_states(&s);
    set_runtime(&s);
    set_fragmentation(&s);
    set_phases(&s);
    *out = s;
    return 0;
}

enum estimate_verdict estimate_verdict(const struct estimate *s, uint64_t gpu_bytes)
{
    return s->high_bytes <= gpu_bytes  ? ESTIMATE_FITS
           : s->low_bytes <= gpu_bytes ? ESTIMATE_CLOSE
                                       : ESTIMATE_DOES_NOT_FIT;
}
