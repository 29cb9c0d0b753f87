#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/mem.h"
#include "common/strbuf.h"
#include "launcher/estimate/estimate.h"

/* Changes of the options that need less memory. Cheapest first. The batch and the number of ranks,
 * which have values, come between these rows. */
static const struct change {
    int zero; /* the ZeRO stage, at least */
    bool flash, fused, bf16, recompute, offload, offload_params;
    const char *cost;
} changes[] = {
    {.flash = true, .cost = "as fast or faster"},
    {.fused = true, .cost = "as fast or faster, with the output matrix in one kernel"},
    {.zero = 1, .cost = "no additional communication"},
    {.zero = 2, .cost = "no additional communication"},
    {.bf16 = true, .cost = "faster, with fp32 master weights"},
    {.recompute = true, .cost = "a third more computation"},
    {.zero = 3, .cost = "half as much communication again"},
    {.zero = 2, .offload = true, .cost = "the optimizer waits for PCIe and host memory"},
    {.zero = 3, .offload = true, .offload_params = true, .cost = "each layer waits for PCIe"},
};
enum { BATCH_AT = 5, RANKS_AT = 7, RANKS_FACTOR_MAX = 1024 };

/* Returns false if the options have what the row changes. */
static bool apply(struct estimate_opts *o, const struct change *c)
{
    bool applies = c->flash            ? o->full_attention
                   : c->fused          ? o->loss != ESTIMATE_LOSS_FUSED && !o->model.no_logits
                   : c->bf16           ? o->precision == ESTIMATE_FP32
                   : c->recompute      ? !o->recompute
                   : c->offload_params ? !o->offload_params
                   : c->offload        ? !o->offload
                                       : o->zero < c->zero && estimate_equal_ranks(o) > 1;
    o->full_attention = o->full_attention && !c->flash;
    o->loss = c->fused ? ESTIMATE_LOSS_FUSED : o->loss;
    o->precision = c->bf16 ? ESTIMATE_BF16 : o->precision;
    o->recompute = o->recompute || c->recompute;
    o->offload = o->offload || c->offload;
    o->offload_params = o->offload_params || c->offload_params;
    o->zero = o->zero < c->zero ? c->zero : o->zero;
    return applies;
}

struct advice {
    const struct estimate *job; /* that does not fit; it may have been measured */
    uint64_t gpu_bytes;
    const struct estimate_advice *form;
    char **lines;
};

/* Corrects a formula by the ratio that measured peaks have to it at this batch. */
static void correct(struct estimate *out, const struct estimate *job)
{
    struct estimate there;
    struct estimate_opts o = job->o;
    o.batch = out->o.batch;
    if (estimate_job(&there, &o, NULL) < 0)
        return;
    double low = (double)out->low_bytes / (double)there.low_bytes;
    double high = (double)out->high_bytes / (double)there.high_bytes;
    estimate_apply(&there, &job->measured);
    out->low_bytes = (uint64_t)(low * (double)there.low_bytes);
    out->high_bytes = (uint64_t)(high * (double)there.high_bytes);
}

static bool fits(struct estimate *out, const struct estimate_opts *o, const struct advice *a)
{
    if (estimate_job(out, o, NULL) < 0)
        return false;
    if (a->job->measured.n > 0)
        correct(out, a->job);
    if (o->host_bytes && out->host_bytes > o->host_bytes)
        return false;
    return estimate_verdict(out, a->gpu_bytes) == ESTIMATE_FITS;
}

/* Returns the largest batch of at most `max` that fits; 0: none. */
static int largest_batch(struct estimate_opts o, int max, const struct advice *a)
{
    struct estimate s;
    int low = 0, high = max;
    while (low < high) {
        o.batch = low + (high - low + 1) / 2;
        if (fits(&s, &o, a))
            low = o.batch;
        else
            high = o.batch - 1;
    }
    return low;
}

/* Appends an option with its value, or the key of a job file that means it. */
static void put(struct strbuf *b, const struct advice *a, const char *option, const char *key,
                const char *value)
{
    if (a->form->keys)
        strbuf_printf(b, "%s%s: %s", b->len > 0 ? ", " : "{", key, value);
    else
        strbuf_printf(b, "%s%s", b->len > 0 ? " " : "", option);
    if (!a->form->keys && strcmp(value, "true") != 0)
        strbuf_printf(b, " %s", value);
}

/* Appends the changes of the job that lead to `to`, as the user types them. */
static void describe(struct strbuf *b, const struct advice *a, const struct estimate_opts *to)
{
    const struct estimate_opts *from = &a->job->o;
    bool keys = a->form->keys, all = a->form->step_batch;
    char batch[32], ranks[32], zero[32];
    snprintf(batch, sizeof batch, "%lld", (long long)to->batch * (all ? to->ranks : 1));
    snprintf(ranks, sizeof ranks, "%d", to->ranks);
    snprintf(zero, sizeof zero, "%s%d", keys ? "zero" : "", to->zero);
    const struct {
        bool differs;
        const char *option, *key, *value;
    } rows[] = {
        {to->batch != from->batch, "--batch", all ? "batch_size" : "batch_size_per_gpu", batch},
        {to->ranks != from->ranks, "-np", "num_gpus", ranks},
        {to->zero != from->zero, "--zero", "distributed_strategy", zero},
        {to->precision != from->precision, "--precision", "precision",
         estimate_precision_name(to->precision)},
        {to->full_attention != from->full_attention, "--flash", "flash", "true"},
        {to->loss != from->loss, "--loss", "loss", estimate_loss_name(to->loss)},
        {to->recompute != from->recompute, "--recompute", "recompute", "block"},
        {to->offload != from->offload, "--offload", "offload", "true"},
        {to->offload_params != from->offload_params, "--offload-params", "offload_params", "true"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].differs)
            put(b, a, rows[i].option, rows[i].key, rows[i].value);
    strbuf_puts(b, keys ? "}" : "");
}

/* Adds a line if the job fits with options `to`. */
static void add(struct advice *a, const struct estimate_opts *to, const char *cost)
{
    struct estimate s;
    if (!fits(&s, to, a))
        return;
    AUTO(strbuf) struct strbuf b = {0};
    describe(&b, a, to);
    strbuf_printf(&b, ": %.1f to %.1f GiB; %s", (double)s.low_bytes / ESTIMATE_GIB,
                  (double)s.high_bytes / ESTIMATE_GIB, cost);
    if (s.host_bytes > a->job->host_bytes)
        strbuf_printf(&b, ", %.1f GiB of host memory per rank",
                      (double)s.host_bytes / ESTIMATE_GIB);
    strv_push(&a->lines, strbuf_take(&b));
}

static void add_batch(struct advice *a, struct estimate_opts n)
{
    n.batch = largest_batch(n, n.batch - 1, a);
    if (n.batch > 0)
        add(a, &n,
            n.fused_step ? "a step has fewer sequences"
                         : "gradient accumulation keeps the batch of a step");
}

/* The smallest number of ranks that fits, with the lowest ZeRO stage that does, unless a stage
 * suffices without more ranks. */
static void add_ranks(struct advice *a, const struct estimate_opts *o)
{
    for (int factor = 1; factor <= RANKS_FACTOR_MAX; factor *= 2)
        for (int stage = o->zero > 1 ? o->zero : 1; stage <= 3; stage++) {
            struct estimate_opts n = *o;
            struct estimate s;
            if (o->ranks > (a->form->ranks_max ? a->form->ranks_max : INT32_MAX) / factor)
                return;
            n.ranks = o->ranks * factor;
            n.zero = stage;
            if (!fits(&s, &n, a))
                continue;
            if (factor > 1)
                add(a, &n, "more GPUs");
            return;
        }
}

/* Changes that suffice one by one. */
static void add_single(struct advice *a)
{
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        struct estimate_opts n = a->job->o;
        if (i == BATCH_AT)
            add_batch(a, n);
        if (i == RANKS_AT)
            add_ranks(a, &n);
        if (apply(&n, &changes[i]))
            add(a, &n, changes[i].cost);
    }
}

/* No change suffices alone: adds one to the other until the job fits, with a smaller batch if
 * necessary. */
static void add_together(struct advice *a)
{
    struct estimate_opts n = a->job->o;
    struct estimate s;
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        struct estimate_opts wide = n;
        for (; i == RANKS_AT && !a->lines && wide.batch > 0; wide.batch /= 2)
            add_ranks(a, &wide);
        struct estimate_opts more = n;
        if (a->lines || !apply(&more, &changes[i]) || estimate_job(&s, &more, NULL) < 0)
            continue; /* the model may not have this technique */
        n = more;
        add(a, &n, "all together");
        if (!a->lines)
            add_batch(a, n);
    }
}

char **estimate_advice(const struct estimate *s, uint64_t gpu_bytes,
                       const struct estimate_advice *form)
{
    struct advice a = {s, gpu_bytes, form, NULL};
    if (estimate_verdict(s, gpu_bytes) == ESTIMATE_FITS) {
        struct estimate_opts n = s->o;
        n.batch = largest_batch(s->o, 1 << 20, &a);
        if (n.batch > s->o.batch)
            add(&a, &n, "the largest batch that fits");
        return a.lines;
    }
    add_single(&a);
    if (!a.lines)
        add_together(&a);
    return a.lines;
}
