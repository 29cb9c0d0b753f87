/* examples/gpt. The sizes repeat what its model.c (model_open(), place()) and optimizer.c allocate;
 * tests/e2e/test_estimate.py compares them byte for byte. */
#include <errno.h>

#include "launcher/estimate/estimate_internal.h"

enum { ALIGN = 8, PIECE = 256 };

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Number of elements of a bucket of n parameters that one of `ranks` ranks owns. */
static int64_t owned(int64_t n, int64_t ranks)
{
    return round_up((n + ranks - 1) / ranks, ALIGN);
}

static int check(const struct estimate_opts *o, struct err *e)
{
    if (o->tp > 1 || o->pp > 1)
        return err_set(e, -EINVAL, "examples/gpt: has no tensor or pipeline parallelism");
    if (o->zero > 1)
        return err_set(e, -EINVAL, "examples/gpt: has ZeRO stages 0 and 1 only");
    if (o->precision != ESTIMATE_FP32 && o->precision != ESTIMATE_BF16)
        return err_set(e, -EINVAL, "examples/gpt: has precisions fp32 and bf16 only");
    if (o->optimizer != ESTIMATE_ADAMW || o->offload || o->no_master || o->full_attention)
        return err_set(e, -EINVAL,
                       "examples/gpt: has AdamW with fp32 copies on the GPU, and "
                       "attention without a matrix of scores, only");
    if ((double)o->batch * o->seq * o->model.hidden * o->model.layers > 0x1p52)
        return err_set(e, -ERANGE, "examples/gpt: a batch of %d is too large", o->batch);
    if (o->seq != o->model.context)
        return err_set(e, -EINVAL, "examples/gpt: a sequence has %d tokens", o->model.context);
    return 0;
}

/* Activations of one layer, and what exists once, in bytes; R is the number of tokens. */
static int64_t array(int64_t rows, int64_t width, int64_t element)
{
    return round_up(rows * width * element, PIECE);
}

static int64_t layer_bytes(int64_t R, int64_t C, int64_t heads, int64_t e)
{
    return 5 * array(R, C, e) + array(R, 3 * C, e) + 2 * array(R, 4 * C, e) + 2 * array(R, 2, 4) +
           array(R, heads, 4);
}

static int64_t outer_bytes(int64_t R, int64_t C, int64_t e)
{
    return 4 * array(R, C, e) + array(R, 3 * C, e) + array(R, 4 * C, e) + array(R, 2, 4);
}

int estimate_gpt(struct estimate *s, struct err *e)
{
    const struct estimate_opts *o = &s->o;
    const struct model_shape *m = &o->model;
    if (check(o, e) < 0)
        return e->code;
    int64_t layers = m->layers, C = m->hidden, R = (int64_t)o->batch * o->seq, ranks = o->ranks;
    int64_t element = o->precision == ESTIMATE_BF16 ? 2 : 4;
    int64_t part = owned(model_shape_outer_params(m), ranks) +
                   layers * owned(model_shape_layer_params(m), ranks);
    int64_t size = part * ranks, kept = o->zero && ranks > 1 ? part : size;
    int64_t layer = layer_bytes(R, C, m->heads, element), input = array(R, C, element);
    int64_t acts = o->recompute ? layer + (layers - 1) * input : layers * layer;
    acts += outer_bytes(R, C, element);
    estimate_set(s, ESTIMATE_PARAMETERS, (double)(size * element), (double)(size * element),
                 "%d P, with padding", (int)element);
    estimate_set(s, ESTIMATE_GRADIENTS, (double)(size * 4), (double)(size * 4),
                 "4 P, with padding");
    int64_t copy = element == 2 ? 4 : 0;
    const char *share = kept < size ? " / N" : "";
    estimate_set(s, ESTIMATE_OPTIMIZER_STATE, (double)(kept * 8), (double)(kept * 8),
                 "8 P%s, with padding", share);
    estimate_set(s, ESTIMATE_MASTER_WEIGHTS, (double)(kept * copy), (double)(kept * copy),
                 "%d P%s, with padding", (int)copy, share);
    estimate_set(s, ESTIMATE_ACTIVATIONS, (double)acts, (double)acts, "%s + last norm + gradients",
                 o->recompute ? "one layer + L - 1 inputs of layers" : "L layers");
    double logits = (double)array(R, m->vocab, element);
    estimate_set(s, ESTIMATE_LOGITS, logits, logits, "%d s b V; the gradient replaces them",
                 (int)element);
    estimate_set(s, ESTIMATE_FRAGMENTATION, 0, 0, "0: each block is allocated once");
    estimate_runtime(s, 0);
    return 0;
}
