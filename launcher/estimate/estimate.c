#include "launcher/estimate/estimate.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/opt.h"
#include "common/plural.h"
#include "launcher/estimate/estimate_internal.h"

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

/* ---- the estimate --------------------------------------------------------------------------- */

void estimate_set(struct estimate *s, enum estimate_part_kind k, double low, double high,
                  const char *fmt, ...)
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

int estimate_job(struct estimate *out, const struct estimate_opts *o, struct err *e)
{
    struct estimate s = {.o = *o};
    int rc = complete(&s.o, e);
    if (rc < 0)
        return rc;
    estimate_transformer(&s);
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
