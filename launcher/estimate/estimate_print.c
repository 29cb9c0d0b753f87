#include "launcher/estimate/estimate_print.h"

#include "common/mem.h"

static double gib(uint64_t bytes)
{
    return (double)bytes / ESTIMATE_GIB;
}

static void print_model(struct strbuf *b, const struct model_shape *m)
{
    strbuf_printf(b, "%s%s%lld parameters", m->name, m->name[0] ? ": " : "", (long long)m->params);
    if (m->kind == MODEL_PARAMS_ONLY)
        strbuf_puts(b, "; the activations are those of usual shapes for this number");
    else
        strbuf_printf(b, ", %d layers of width %d", m->layers, m->hidden);
    strbuf_putc(b, '\n');
}

static void print_options(struct strbuf *b, const struct estimate_opts *o)
{
    strbuf_printf(b, "batch %d x %d tokens per rank, %s, %s, %s attention, %s", o->batch, o->seq,
                  estimate_precision_name(o->precision), estimate_optimizer_name(o->optimizer),
                  o->full_attention ? "full" : "flash",
                  o->recompute ? "blocks recomputed" : "no recomputation");
    if (o->no_master)
        strbuf_puts(b, ", no master weights");
    if (o->ranks > 1)
        strbuf_printf(b, ", %d ranks, ZeRO %d", o->ranks, o->zero);
    if (o->tp > 1 || o->pp > 1)
        strbuf_printf(b, ", tensor x pipeline %d x %d", o->tp, o->pp);
    if (o->offload)
        strbuf_printf(b, ", %s in host memory",
                      o->offload_params ? "parameters and optimizer" : "optimizer");
    strbuf_putc(b, '\n');
}

static void print_symbols(struct strbuf *b, const struct estimate_opts *o)
{
    const struct model_shape *m = &o->model;
    strbuf_printf(b, "P: parameters of a rank, the model's %lld", (long long)m->params);
    if (o->tp * o->pp > 1)
        strbuf_printf(b, " / %d", o->tp * o->pp);
    strbuf_printf(b, "; N: %d data-parallel ranks; b: %d sequences; s: %d tokens",
                  estimate_data_ranks(o), o->batch, o->seq);
    if (m->kind != MODEL_PARAMS_ONLY)
        strbuf_printf(b, ";\nL: %d layers; h: width %d; a: %d heads; V: %d vocabulary", m->layers,
                      m->hidden, m->heads, m->vocab);
    if (o->tp > 1)
        strbuf_printf(b, "; t: %d tensor-parallel ranks", o->tp);
    strbuf_puts(b, "\n");
}

static void print_row(struct strbuf *b, const char *name, uint64_t low, uint64_t high,
                      const char *formula)
{
    strbuf_printf(b, "  %-19s %8.2f %8.2f", name, gib(low), gib(high));
    if (formula)
        strbuf_printf(b, "  %s", formula);
    strbuf_putc(b, '\n');
}

void estimate_print_text(struct strbuf *b, const struct estimate *s, bool explain)
{
    uint64_t low = 0, high = 0;
    print_model(b, &s->o.model);
    print_options(b, &s->o);
    strbuf_printf(b, "\n  %-19s %8s %8s%s\n", "GiB per rank", "from", "to",
                  explain ? "  bytes" : "");
    for (int k = 0; k < ESTIMATE_PARTS; k++) {
        const struct estimate_part *p = &s->part[k];
        low += p->low_bytes;
        high += p->high_bytes;
        if (explain || p->high_bytes)
            print_row(b, estimate_part_name(k), p->low_bytes, p->high_bytes,
                      explain ? p->formula : NULL);
    }
    print_row(b, "total", low, high, NULL);
    if (s->measured.n > 0)
        print_row(b, "corrected", s->low_bytes, s->high_bytes, s->correction);
    if (s->host_bytes)
        strbuf_printf(b, "  host memory per rank: %.2f GiB\n", gib(s->host_bytes));
    if (explain) {
        strbuf_putc(b, '\n');
        print_symbols(b, &s->o);
    }
}

void estimate_print_gpu(struct strbuf *b, const struct estimate *s, const struct estimate_gpu *g)
{
    enum estimate_verdict alone = estimate_verdict(s, g->usable_bytes);
    strbuf_printf(b, "%s (%.1f GiB usable): %s", g->name, gib(g->usable_bytes),
                  estimate_verdict_text(alone));
    if (g->free_bytes < g->usable_bytes && estimate_verdict(s, g->free_bytes) != alone)
        strbuf_printf(b, "; now: %s, %.1f GiB are free",
                      estimate_verdict_text(estimate_verdict(s, g->free_bytes)),
                      gib(g->free_bytes));
    strbuf_putc(b, '\n');
}

static json_t *model_json(const struct model_shape *m)
{
    json_t *o =
        json_pack("{s:o, s:I}", "name", json_text(m->name), "params", (json_int_t)m->params);
    if (m->kind != MODEL_PARAMS_ONLY)
        json_object_update_new(o, json_pack("{s:i, s:i, s:i, s:i, s:i, s:i}", "layers", m->layers,
                                            "hidden", m->hidden, "heads", m->heads, "kv_heads",
                                            m->kv_heads, "intermediate", m->intermediate, "vocab",
                                            m->vocab));
    return o;
}

static json_t *options_json(const struct estimate_opts *o)
{
    return json_pack("{s:i, s:i, s:s, s:s, s:i, s:i, s:i, s:i, s:b, s:b, s:b, s:b, s:b}", "batch",
                     o->batch, "seq", o->seq, "precision", estimate_precision_name(o->precision),
                     "optimizer", estimate_optimizer_name(o->optimizer), "ranks", o->ranks, "zero",
                     o->zero, "tp", o->tp, "pp", o->pp, "flash", !o->full_attention, "recompute",
                     o->recompute, "master", !o->no_master, "offload", o->offload, "offload_params",
                     o->offload_params);
}

json_t *estimate_print_json(const struct estimate *s, const struct estimate_gpu *gpus, size_t count,
                            char *const *advice)
{
    json_t *parts = json_array(), *list = json_array(), *lines = json_array();
    for (int k = 0; k < ESTIMATE_PARTS; k++)
        json_array_append_new(
            parts, json_pack("{s:s, s:I, s:I, s:s}", "name", estimate_part_name(k), "low_bytes",
                             (json_int_t)s->part[k].low_bytes, "high_bytes",
                             (json_int_t)s->part[k].high_bytes, "formula", s->part[k].formula));
    for (size_t i = 0; i < count; i++)
        json_array_append_new(
            list, json_pack("{s:o, s:I, s:I, s:s}", "name", json_text(gpus[i].name), "usable_bytes",
                            (json_int_t)gpus[i].usable_bytes, "free_bytes",
                            (json_int_t)gpus[i].free_bytes, "verdict",
                            estimate_verdict_text(estimate_verdict(s, gpus[i].usable_bytes))));
    for (size_t i = 0; i < strv_len(advice); i++)
        json_array_append_new(lines, json_text(advice[i]));
    return json_pack("{s:i, s:o, s:o, s:o, s:I, s:I, s:I, s:i, s:s, s:o, s:o}", "v", 1, "model",
                     model_json(&s->o.model), "options", options_json(&s->o), "parts", parts,
                     "low_bytes", (json_int_t)s->low_bytes, "high_bytes", (json_int_t)s->high_bytes,
                     "host_bytes", (json_int_t)s->host_bytes, "measured", s->measured.n,
                     "correction", s->correction, "gpus", list, "advice", lines);
}
